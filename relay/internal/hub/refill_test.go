package hub

import (
	"bytes"
	"io"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/names"
	"sluice/track"
)

func at(group, object uint64) moqt.Location { return moqt.Location{Group: group, Object: object} }

// aloneHub returns a hub without peers.
func aloneHub(log slog.Handler) *Hub {
	d := NewDirectory(Config{
		Cache: track.NewCache(track.CacheConfig{Grace: time.Second}), Log: slog.New(log), Tasks: new(sync.WaitGroup),
		Counters:  &Counters{Datagrams: prometheus.NewCounter(prometheus.CounterOpts{Name: "datagrams"})},
		Neighbors: func(place) ([]*Peer, bool) { return nil, false },
	}, func(moqt.FullTrackName, int) int { return 0 })
	return newHub(d, names.PlaceOf("", moqt.Namespace{"live"}), "video")
}

// newRefill returns a refill whose response the test gives, and the objects that the track opens with.
func newRefill() (r *refill, opened *[]*track.Segment) {
	opened = new([]*track.Segment)
	h := aloneHub(slog.DiscardHandler)
	r = &refill{
		upstream: newUpstream(h, new(Peer)), open: make(map[uint64]*refilled), cancel: func() {},
		wanted: moqt.Range{End: at(1<<20, moqt.MaxLocation.Object)},
		data:   h.directory.Cache.NewTrack(func(s *track.Segment) { *opened = append(*opened, s) }),
	}
	return r, opened
}

func (r *refill) object(t *testing.T, o moqt.FetchObject) {
	t.Helper()
	o.PayloadLength = 1
	require.NoError(t, r.TakeItem(&o))
	require.NoError(t, r.TakePayload([]byte("x")))
}

// A response with too many subgroups ends. One with many groups keeps the streams of the current one open.
func TestRefillIsLimited(t *testing.T) {
	r, opened := newRefill()
	defer r.data.Close()
	for g := range uint64(2 * maxRefilled) {
		r.object(t, moqt.FetchObject{Location: at(g, 0)})
	}
	require.Len(t, *opened, 2*maxRefilled)
	require.Len(t, r.open, 1)
	last := uint64(1 << 20)
	for s := range uint64(maxRefilled) {
		r.object(t, moqt.FetchObject{Location: at(last, s), SubgroupID: s})
	}
	err := r.TakeItem(&moqt.FetchObject{Location: at(last, 100), SubgroupID: 100})
	require.ErrorIs(t, err, errTooManyStreams)
	r.end(errTooManyStreams)
}

// The publisher is charged once for what it sends again: by the fetch.Pull, which reads it.
func TestRefillIsChargedOnce(t *testing.T) {
	const much = 1 << 20
	accounts := charge.NewAccounts(charge.Config{
		PerToken: charge.Quota{Sessions: 1, Upload: charge.MinBitRate}, Logger: slog.New(slog.DiscardHandler),
		Refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refusals"}, []string{"kind", "resource"}),
	})
	r, _ := newRefill()
	defer r.data.Close()
	p := r.upstream.peer
	_, refused := p.Token(accounts, "publisher")
	require.Nil(t, refused)
	require.NoError(t, r.TakeItem(&moqt.FetchObject{Location: at(1, 0), PayloadLength: much}))
	require.NoError(t, r.TakePayload(make([]byte, much)))
	require.False(t, p.Payers().Refuse(charge.UploadRate))
	r.upstream.receiver.count(much)
	require.True(t, p.Payers().Refuse(charge.UploadRate))
}

// Streams end with FIN only if the response has all that is known of their groups. What comes behind a hole has a
// stream of its own: one stream would say that there is nothing in between.
func TestRefillWithHoles(t *testing.T) {
	unknown := func(group, object uint64) moqt.FetchObject {
		return moqt.FetchObject{Kind: moqt.FetchKindUnknown, Location: at(group, object)}
	}
	const end = 1<<64 - 1
	r, opened := newRefill()
	defer r.data.Close()
	for _, o := range []moqt.FetchObject{
		{Location: at(1, 0)}, {Location: at(1, 1)}, unknown(1, end), // as is usual
		{Location: at(2, 0)}, unknown(2, 3), {Location: at(2, 4)}, unknown(3, 5), // within groups
		{Location: at(3, 6)}, unknown(3, end),
		{Location: at(4, 0)}, {Kind: moqt.FetchKindNonExistent, Location: at(4, end)},
		{Location: at(5, 0)}, unknown(6, 2), {Location: at(6, 3)}, // from one group to the next
		{Location: at(7, 0)}, {Kind: moqt.FetchKindNonExistent, Location: at(7, end)}, unknown(8, 2),
		{Location: at(9, 0)}, unknown(9, 3), {Kind: moqt.FetchKindNonExistent, Location: at(9, end)},
		{Location: at(10, 0)}, unknown(10, 3), {Kind: moqt.FetchKindNonExistent, Location: at(10, end)},
	} {
		if o.Kind == moqt.FetchKindObject {
			r.object(t, o)
		} else {
			require.NoError(t, r.TakeItem(&o))
		}
	}
	r.wanted.End = at(10, end)
	r.end(nil)
	type ended struct {
		group, last uint64
		state       track.State
	}
	var got []ended
	for _, s := range *opened {
		state, _ := s.Log.State()
		last, _ := s.Log.Last()
		got = append(got, ended{s.Group, last.ID, state})
	}
	require.Equal(t, []ended{
		{1, 1, track.Finished}, {2, 0, track.Reset}, {2, 4, track.Cut}, {3, 6, track.Finished},
		{4, 0, track.Finished}, {5, 0, track.Cut}, {6, 3, track.Finished},
		{7, 0, track.Finished}, {9, 0, track.Cut}, {10, 0, track.Cut},
	}, got)
}

// A publisher marks where groups end, by the header of a subgroup or by an object. Groups that were missed are marked
// as well, as far as the response says where they end. The publisher's streams, if they come later, do not contradict,
// and bring nothing, also if no group was marked before.
func TestRefillMarksEnds(t *testing.T) {
	type ended struct {
		group, subgroup uint64
		marked          bool
		last            uint64
		status          moqt.ObjectStatus
		state           track.State
	}
	const normal, mark = moqt.StatusNormal, moqt.StatusEndOfGroup
	plain := []moqt.ObjectHeader{{}}
	marked := []moqt.ObjectHeader{{}, {ObjectID: 1, Status: mark}}
	for name, c := range map[string]struct {
		header  bool
		objects []moqt.ObjectHeader // of group 1
		later   []moqt.ObjectHeader // of group 5
		want    []ended
	}{
		"header": {true, plain, plain, []ended{
			{2, 0, true, 2, normal, track.Finished}, {2, 1, false, 1, normal, track.Finished},
			{3, 0, true, 0, normal, track.Cut}, {3, 1, false, 1, normal, track.Finished}, // the other one has the last
			{4, 0, true, 0, normal, track.Cut}, // where that ends is not known
			{5, 0, true, 0, normal, track.Finished},
		}},
		"object": {false, marked, marked, []ended{
			{2, 0, false, 3, mark, track.Finished}, {2, 1, false, 1, normal, track.Finished},
			{3, 0, false, 2, mark, track.Finished}, {3, 1, false, 1, normal, track.Finished},
			{4, 0, false, 0, normal, track.Finished},
			{5, 0, false, 1, mark, track.Finished},
		}},
		"none": {false, plain, marked, []ended{
			{2, 0, false, 2, normal, track.Finished}, {2, 1, false, 1, normal, track.Finished},
			{3, 0, false, 0, normal, track.Finished}, {3, 1, false, 1, normal, track.Finished},
			{4, 0, false, 0, normal, track.Finished},
			{5, 0, false, 0, normal, track.Finished},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r, opened := newRefill()
			defer r.data.Close()
			publishInto(t, r.data, moqt.SubgroupHeader{GroupID: 1, EndOfGroup: c.header, FirstObject: true}, c.objects)
			for _, o := range []moqt.FetchObject{
				{Location: at(2, 0)}, {Location: at(2, 1), SubgroupID: 1}, {Location: at(2, 2)},
				{Location: at(3, 0)}, {Location: at(3, 1), SubgroupID: 1},
				{Location: at(4, 0)}, {Kind: moqt.FetchKindUnknown, Location: at(4, moqt.MaxLocation.Object)},
				{Location: at(5, 0)},
			} {
				if o.Kind == moqt.FetchKindObject {
					r.object(t, o)
				} else {
					require.NoError(t, r.TakeItem(&o))
				}
			}
			r.end(nil)
			var got []ended
			for _, s := range (*opened)[1:] {
				state, _ := s.Log.State()
				last, _ := s.Log.Last()
				got = append(got, ended{s.Group, s.Subgroup, s.EndOfGroup, last.ID, last.Status, state})
			}
			require.Equal(t, c.want, got)
			publishInto(t, r.data, moqt.SubgroupHeader{GroupID: 5, EndOfGroup: c.header, FirstObject: true}, c.later)
			require.Len(t, *opened, 1+len(c.want))
		})
	}
}

// publishInto puts a subgroup that a publisher sends into a track.
func publishInto(t *testing.T, data *track.Track, h moqt.SubgroupHeader, objects []moqt.ObjectHeader) {
	t.Helper()
	src := data.NewSource(track.SourceConfig{Header: h, Cancel: func() {}})
	e, stream := moqt.NewSubgroupEncoder(moqt.DataLayout1, h), []byte(nil)
	for _, o := range objects {
		var payload string
		if o.Status == moqt.StatusNormal {
			o.PayloadLength, payload = 1, "x"
		}
		b, err := e.AppendObject(stream, o)
		require.NoError(t, err)
		stream = append(b, payload...)
	}
	in := bytes.NewReader(stream)
	err := src.Read(in)
	for err == nil {
		err = src.Read(in)
	}
	require.ErrorIs(t, err, io.EOF)
}

// A response that ends with no word about the rest of its last group has all of that: gaps are objects that do not
// exist.
func TestRefillHasTheLastGroup(t *testing.T) {
	r, opened := newRefill()
	defer r.data.Close()
	r.object(t, moqt.FetchObject{Location: at(1, 0)})
	r.end(nil)
	state, _ := (*opened)[0].Log.State()
	require.Equal(t, track.Finished, state)
}

// Of a long range, the groups in the middle are not fetched.
func TestRefillOfBothEnds(t *testing.T) {
	r := moqt.Range{Start: at(5, 1), End: at(4+2*maxRefill, 3)}
	require.Equal(t, []moqt.Range{r}, ends(r))
	r.End.Group++
	first, last := at(4+maxRefill, math.MaxUint64), at(6+maxRefill, 0)
	require.Equal(t, []moqt.Range{{Start: r.Start, End: first}, {Start: last, End: r.End}}, ends(r))
}
