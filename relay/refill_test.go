package relay

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay/internal/fetch"
	"sluice/relay/internal/names"
	"sluice/track"
)

// newRefill returns a refill whose response the test gives, and the objects that the track opens with.
func (b *bench) newRefill() (r *refill, opened *[]*track.Segment) {
	opened = new([]*track.Segment)
	r = &refill{
		upstream: &upstream{peer: &peer{upstream: &UpstreamRelay{}}}, open: make(map[uint64]*refilled),
		wanted: moqt.Range{End: at(1<<20, moqt.MaxLocation.Object)},
		data:   b.relay.cache.NewTrack(func(s *track.Segment) { *opened = append(*opened, s) }),
	}
	r.upstream.hub = newHub(b.relay, names.PlaceOf("", video.Namespace), video.Name)
	r.upstream.receiver = &receiver{r.upstream}
	_, r.cancel = context.WithCancel(b.ctx)
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
	onBench(t, Config{}, func(b *bench) {
		r, opened := b.newRefill()
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
		require.ErrorIs(t, err.(fetch.SourceError).Err, errTooManyStreams)
		r.end(errTooManyStreams)
	})
}

// Streams end with FIN only if the response has all that is known of their groups. What comes behind a hole has a
// stream of its own: one stream would say that there is nothing in between.
func TestRefillWithHoles(t *testing.T) {
	unknown := func(group, object uint64) moqt.FetchObject {
		return moqt.FetchObject{Kind: moqt.FetchKindUnknown, Location: at(group, object)}
	}
	const end = 1<<64 - 1
	onBench(t, Config{}, func(b *bench) {
		r, opened := b.newRefill()
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
		r.end(io.EOF)
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
	})
}

// A publisher marks where groups end, by the header of a subgroup or by an object. Groups that were missed are marked
// as well, as far as the response says where they end: so the publisher's streams, if they come later, do not
// contradict.
func TestRefillMarksEnds(t *testing.T) {
	type ended struct {
		group, subgroup uint64
		marked          bool
		last            uint64
		status          moqt.ObjectStatus
		state           track.State
	}
	const normal, mark = moqt.StatusNormal, moqt.StatusEndOfGroup
	for name, c := range map[string]struct {
		header  bool
		objects []moqt.ObjectHeader
		want    []ended
	}{
		"header": {true, []moqt.ObjectHeader{{}}, []ended{
			{2, 0, true, 2, normal, track.Finished}, {2, 1, false, 1, normal, track.Finished},
			{3, 0, true, 0, normal, track.Cut}, {3, 1, false, 1, normal, track.Finished}, // the other one has the last
			{4, 0, true, 0, normal, track.Cut}, // where that ends is not known
			{5, 0, true, 0, normal, track.Finished},
		}},
		"object": {false, []moqt.ObjectHeader{{}, {ObjectID: 1, Status: mark}}, []ended{
			{2, 0, false, 3, mark, track.Finished}, {2, 1, false, 1, normal, track.Finished},
			{3, 0, false, 2, mark, track.Finished}, {3, 1, false, 1, normal, track.Finished},
			{4, 0, false, 0, normal, track.Finished},
			{5, 0, false, 1, mark, track.Finished},
		}},
		"none": {false, []moqt.ObjectHeader{{}}, []ended{
			{2, 0, false, 2, normal, track.Finished}, {2, 1, false, 1, normal, track.Finished},
			{3, 0, false, 0, normal, track.Finished}, {3, 1, false, 1, normal, track.Finished},
			{4, 0, false, 0, normal, track.Finished},
			{5, 0, false, 0, normal, track.Finished},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				r, opened := b.newRefill()
				defer r.data.Close()
				r.publish(t, moqt.SubgroupHeader{GroupID: 1, EndOfGroup: c.header, FirstObject: true}, c.objects)
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
				r.end(io.EOF)
				var got []ended
				for _, s := range (*opened)[1:] {
					state, _ := s.Log.State()
					last, _ := s.Log.Last()
					got = append(got, ended{s.Group, s.Subgroup, s.EndOfGroup, last.ID, last.Status, state})
				}
				require.Equal(t, c.want, got)
				r.publish(t, moqt.SubgroupHeader{GroupID: 5, EndOfGroup: c.header, FirstObject: true}, c.objects)
			})
		})
	}
}

// publish has a publisher publish a subgroup.
func (r *refill) publish(t *testing.T, h moqt.SubgroupHeader, objects []moqt.ObjectHeader) {
	t.Helper()
	src := r.data.NewSource(track.SourceConfig{Header: h, Cancel: func() {}})
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
	onBench(t, Config{}, func(b *bench) {
		r, opened := b.newRefill()
		defer r.data.Close()
		r.object(t, moqt.FetchObject{Location: at(1, 0)})
		r.end(io.EOF)
		state, _ := (*opened)[0].Log.State()
		require.Equal(t, track.Finished, state)
	})
}

// A relay upstream is replaced by another process, to which another publisher comes that does not say how far the track
// is: the first object does, and missed objects come from the old process.
func TestRefillBeforeTheFirstObject(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		old, next, edge := bs[0], bs[1], bs[2]
		us, sessions := edge.follow(old)
		src := publishing["PUBLISH"](old)
		k, _ := edge.connect().mustSubscribe(moqt.Parameters{})
		src.group(1, 1)
		sessions[0].cut()
		src.group(2, 2)
		require.NoError(t, src.publication().Done(moqt.DoneGoingAway, ""))
		link(old, next)
		publisher := publishing["PUBLISH"](next)
		edge.dial(us[0], next)
		publisher.group(3, 1)
		require.Subset(t, strings.Split(k.take(), ", "), strings.Split("1.0, 1 fin, 2.0, 2.1, 3.0, 3 fin", ", "))
	})
}

// A subscription begins in a session that takes no requests any more. Missed objects are fetched in the next session.
func TestRefillInAnotherSession(t *testing.T) {
	onChain(t, 2, func(bs []*bench) {
		first := bs[0].next(nil)
		bs[0].connect().mustSubscribe(moqt.Parameters{}) // so that the published objects are known here
		us, sessions := bs[1].follow(bs[0])
		k, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 1)
		sessions[0].cut()
		first.group(2, 1)
		first.group(3, 1)
		require.NoError(t, first.publication().Done(moqt.DoneGoingAway, ""))
		leaving := bs[1].dial(us[0], bs[0])
		time.Sleep(time.Second)
		leaving.goaway(bs[0])
		bs[1].dial(us[0], bs[0])
		bs[0].next(ptr(at(3, 0))).group(4, 1)
		require.Subset(t, strings.Split(k.take(), ", "), strings.Split("1.0, 1 fin, 2.0, 3.0, 4.0, 4 fin", ", "))
	})
}

// A session is lost while a stream is on its way, and a later group has come. Nothing says that the group lacks the
// stream, but it has got objects just before.
func TestRefillOfWhatWasOnItsWay(t *testing.T) {
	onChain(t, 2, func(bs []*bench) {
		first := bs[0].next(nil)
		us, sessions := bs[1].follow(bs[0])
		k, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 1)
		first.group(2, 1)
		sessions[0].cut()
		h := moqt.SubgroupHeader{GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1, FirstObject: true}
		first.open(h).object(1).fin()
		first.group(3, 1)
		bs[1].dial(us[0], bs[0])
		require.Contains(t, strings.Split(k.take(), ", "), "1/1.1")
	})
}

// Nobody was subscribed while groups came. They are not missed by those who subscribe later: to fetch them would delay
// what is.
func TestRefillBeginsWithItsSubscribers(t *testing.T) {
	onChain(t, 2, func(bs []*bench) {
		first := bs[0].next(nil)
		us, sessions := bs[1].follow(bs[0])
		bs[0].connect().mustSubscribe(moqt.Parameters{})
		_, sub := bs[1].connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 1)
		sub.Cancel(moqt.ResetCancelled)
		time.Sleep(5 * time.Second) // the relay has ended its subscription, and has the group
		first.group(2, 1)
		first.group(3, 1)
		k, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		first.group(4, 1)
		sessions[0].cut()
		first.group(5, 1)
		first.group(6, 1)
		bs[1].dial(us[0], bs[0])
		got := k.take()
		require.Contains(t, got, "5.0")
		require.NotContains(t, got, "2.0")
	})
}

// A relay moves to another session while the one before, which lags behind, still brings the track. When that is not
// needed any more, the relay fetches what it has not brought.
func TestRefillAfterAMove(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		old, next, edge := bs[0], bs[1], bs[2]
		us, _ := edge.follow(old)
		slow, fast := publishing["PUBLISH"](old), publishing["PUBLISH"](next)
		k, _ := edge.connect().mustSubscribe(moqt.Parameters{})
		next.connect().mustSubscribe(moqt.Parameters{})
		slow.group(1, 1)
		for group := range uint64(3) {
			fast.group(1+group, 1)
		}
		edge.dial(us[0], next)
		time.Sleep(time.Minute)
		require.Subset(t, strings.Split(k.take(), ", "), strings.Split("1.0, 1 fin, 2.0, 3.0, 3 fin", ", "))
	})
}
