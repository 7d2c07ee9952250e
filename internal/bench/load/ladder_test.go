package load

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/bench/video"
	"sluice/internal/rendition"
)

// quick has a group each 100 ms.
var quick = video.Mock{Rate: 1e6, FrameRate: 100, Group: 10, Layers: true}.WithDefaults()

// climber is a subscriber of a ladder that a publisher has begun to publish.
func climber(t *testing.T, rule rendition.Rule) (*generator, *connection, *receiver) {
	t.Helper()
	url := startRelay(t)
	publisher := startGenerator(t, GeneratorConfig{Publish: true, URL: url, Mock: quick, Ladder: true})
	require.True(t, publisher.event(t).Ready)
	publisher.tell(t, Go)
	g := &generator{
		GeneratorConfig: GeneratorConfig{URL: url, Namespace: defaultNamespace, Track: defaultTrack, Rule: rule},
		source:          quick,
	}
	c, err := g.connect(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(c.close)
	return g, c, newReceiver(quick, true)
}

// ranks returns the renditions that have arrived, in the order of groups. A group is of one.
func ranks(t *testing.T, r *receiver) (list []int) {
	t.Helper()
	byGroup := make(map[uint64]int)
	last := uint64(0)
	for _, a := range r.result().Arrivals {
		rank, seen := byGroup[a.Group]
		require.False(t, seen && rank != a.Rendition, "group %d has objects of two renditions", a.Group)
		byGroup[a.Group], last = a.Rendition, max(last, a.Group)
	}
	for group := range last + 1 {
		if rank, ok := byGroup[group]; ok && (len(list) == 0 || list[len(list)-1] != rank) {
			list = append(list, rank)
		}
	}
	return list
}

// longest is how long a test waits for an event.
const longest = time.Minute

// A player changes to another rendition at the start of a group, and leaves the old one.
func TestChangeOfRendition(t *testing.T) {
	t.Parallel()
	g, c, r := climber(t, rendition.ByClient)
	l := g.newLadder(c, r)
	first, err := l.begin(t.Context())
	require.NoError(t, err)
	r.waitFor(t.Context(), 30)
	second := first
	require.Eventually(t, func() bool {
		second = l.change(t.Context(), first, 0)
		return second.rank == 0
	}, longest, 10*time.Millisecond)
	require.Eventually(t, func() bool { return len(ranks(t, r)) == 2 }, longest, 10*time.Millisecond)
	<-first.subscription.Context().Done() // it leaves
	require.Equal(t, []int{2, 0}, ranks(t, r))
	require.Zero(t, r.result().Corrupt)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Same(t, second, l.change(ended, second, 1), "what cannot be had changes nothing")
}

// A frame that is not there when it is due has been left out.
func TestMissingFramesAreSkipped(t *testing.T) {
	r := newReceiver(quick, true)
	l := (&generator{source: quick}).newLadder(nil, r)
	l.chooser = rendition.NewChooser(&l.meter, make([]rendition.Rendition, 3), 2)
	r.ladder = l
	begin := time.Unix(1000, 0)
	for n := range uint64(20) {
		if n%5 == 4 {
			continue
		}
		o := object{Location: quick.Frame(n).Location, rank: 2}
		o.digest.Write(quick.Payload(n, begin.Add(quick.Frame(n).Due)))
		r.take(o)
	}
	require.Equal(t, begin, l.origin)
	p := &part{ladder: l, end: 2}
	require.False(t, p.over(l.shown(19)))
	require.True(t, p.over(l.shown(19).Add(1)))
	require.EqualValues(t, 0, l.next)
	l.skip(l.shown(14).Add(1))
	require.EqualValues(t, 15, l.next)
}

// The relay chooses if it is asked to: then all renditions are subscribed to, and one is served.
func TestRelayIsAskedToChoose(t *testing.T) {
	t.Parallel()
	g, c, r := climber(t, rendition.ByRelay)
	require.NoError(t, g.climb(t.Context(), c, r))
	r.waitFor(t.Context(), 30)
	require.Equal(t, 2, ranks(t, r)[0])
	require.Equal(t, rendition.ByRelay, r.result().Rule)
	require.Nil(t, r.ladder)
}

func TestClipHasNoLadder(t *testing.T) {
	_, err := openSource(GeneratorConfig{Clip: "clip.mp4", Rule: rendition.ByClient})
	require.ErrorContains(t, err, "only mock video has")
}
