package load

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/video"
)

// quick has a group each 100 ms.
var quick = video.Mock{Rate: 1e6, FrameRate: 100, Group: 10, Layers: true}.WithDefaults()

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

// The relay chooses: all renditions are subscribed to, and one is served.
func TestRelayIsAskedToChoose(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	publisher := startGenerator(t, GeneratorConfig{Publish: true, URL: url, Mock: quick, Ladder: true})
	require.True(t, publisher.event(t).Ready)
	publisher.tell(t, Go)
	g := &generator{
		GeneratorConfig: GeneratorConfig{
			URL: url, Namespace: Namespace, Ladder: true, Mock: quick,
		},
	}
	r := newReceiver(quick, true)
	c, err := g.join(t.Context(), r)
	require.NoError(t, err)
	t.Cleanup(c.close)
	r.waitFor(t.Context(), 30)
	require.Equal(t, 2, ranks(t, r)[0])
}
