package fastpath

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/lab"
	"sluice/moqt"
)

// lateRig is a subscriber and a publisher, and a test that takes the steps of the kernel's runs and of the reclaimer.
type lateRig struct {
	*rig
	subscriber, publisher *conn
	track                 *ForwardedTrack
}

// The stream of the publisher, and where its log begins.
const lateStream, lateStart = 3, 4

func newLateRig(t *testing.T) *lateRig {
	r := &lateRig{rig: newRig(t, lab.Topology{Subscribers: 1}, false)}
	stopReclaimer(t, r.fast)
	r.subscriber, r.publisher, r.track = r.connect(), r.connect(), r.fast.NewTrack()
	t.Cleanup(r.track.Close)
	r.track.Forward(r.publisher, 7, 128, []Subscriber{{Conn: r.subscriber, Alias: 1}})
	return r
}

// key names the subscriber's stream.
func (r *lateRig) key() bpf.DownstreamKey {
	return bpf.DownstreamKey{StreamId: lateStream, Publisher: r.publisher.index, Subscriber: r.subscriber.index}
}

// open publishes a slot and takes an id, as open_stream does.
func (r *lateRig) open() *claim.StreamState {
	slot, err := r.fast.newStream(r.key())
	require.NoError(r.t, err)
	state := &r.fast.streams[slot]
	state.Next.Store(lateStart)
	state.ID.Store(11)
	return state
}

func (r *lateRig) openStream() (*claim.StreamState, bool) {
	return r.subscriber.OpenStream(&claim.PublisherStream{Conn: r.publisher, StreamID: lateStream, Start: lateStart})
}

// impatient lets nobody wait for a run that opens a stream.
func impatient(t *testing.T) {
	before := openingTimeout
	openingTimeout = -time.Second
	t.Cleanup(func() { openingTimeout = before })
}

// TestLateOpening has a run of the kernel take too long to open a stream. It opens the stream, or the media sender does
// (I8). A stream that the run has opened for nobody is reset when the run has ended (I12).
func TestLateOpening(t *testing.T) {
	t.Run("it has claimed nothing", func(t *testing.T) {
		r := newLateRig(t)
		impatient(t)
		kernels := r.open()
		state, _ := r.openStream()
		require.Nil(t, state)
		require.False(t, kernels.Claim(lateStart, lateStart+10, false), "both have opened the stream")
		r.fast.reclaimer.try()
		require.Empty(t, r.abandoned)
		kernels.Phase.Store(claim.StreamAbandoned)
		r.fast.reclaimer.try()
		require.Equal(t, []*claim.StreamState{kernels}, r.abandoned)
		r.fast.reclaimer.try()
		require.Len(t, r.abandoned, 1)
	})
	t.Run("it has claimed the first bytes", func(t *testing.T) {
		r := newLateRig(t)
		impatient(t)
		kernels := r.open()
		require.True(t, kernels.Claim(lateStart, lateStart+10, false))
		state, adopted := r.openStream()
		require.Same(t, kernels, state)
		require.True(t, adopted)
	})
	t.Run("nobody wants the stream", func(t *testing.T) {
		r := newLateRig(t)
		impatient(t)
		kernels := r.open()
		r.fast.abandonUnadopted(r.key())
		require.Empty(t, r.abandoned)
		kernels.Phase.Store(claim.StreamOpen)
		r.fast.reclaimer.try()
		require.Equal(t, []*claim.StreamState{kernels}, r.abandoned)
	})
}

// TestOpenedAtTheEnd has a run, which has looked whether the stream has ended, open a stream after user space has read
// all of it. The stream is reset (I12).
func TestOpenedAtTheEnd(t *testing.T) {
	r := newLateRig(t)
	end := r.track.Receive(r.publisher, lateStream, moqt.SubgroupHeader{}, 128, lateStart)
	end()
	kernels := r.open()
	kernels.Phase.Store(claim.StreamOpen)
	r.fast.reclaimer.reclaim()
	require.Equal(t, []*claim.StreamState{kernels}, r.abandoned)
}

// TestReadBehindTheEnd has a publisher end while user space reads its stream, which the kernel has opened and the media
// sender does not have yet. The media sender adopts it: on another stream, subscribers would get the objects again.
func TestReadBehindTheEnd(t *testing.T) {
	r := newLateRig(t)
	end := r.track.Receive(r.publisher, lateStream, moqt.SubgroupHeader{}, 128, lateStart)
	kernels := r.open()
	kernels.Phase.Store(claim.StreamOpen)
	r.publisher.Close()
	r.fast.reclaimer.reclaim()
	require.Empty(t, r.abandoned)
	state, adopted := r.openStream()
	require.True(t, adopted)
	require.Same(t, kernels, state)
	end()
	r.fast.reclaimer.reclaim()
	require.False(t, r.publisher.wasServed(), "another connection may have the index")
	require.Empty(t, r.abandoned)
}

// TestSlotOutlivesRuns keeps the slot of a closed stream until no run is left that may open the stream once more (I8).
func TestSlotOutlivesRuns(t *testing.T) {
	r := newLateRig(t)
	defer r.track.Receive(r.publisher, lateStream, moqt.SubgroupHeader{}, 128, lateStart)()
	state, adopted := r.openStream()
	require.NotNil(t, state)
	require.False(t, adopted)
	r.subscriber.CloseStream(state)
	_, err := r.fast.newStream(r.key()) // as a run does that has registered the subgroup
	require.Error(t, err)
	r.fast.reclaimer.reclaim()
	require.Len(t, r.fast.reclaimer.later, 1)
}

// TestOpenedWithoutSlot has the media sender open a stream that there is no slot for, when a run has taken the last one
// and has not opened the stream yet. The run opens no other one (I8). What keeps it from that lasts no longer.
func TestOpenedWithoutSlot(t *testing.T) {
	r := newLateRig(t)
	defer r.track.Receive(r.publisher, lateStream, moqt.SubgroupHeader{}, 128, lateStart)()
	r.fast.states[r.subscriber.index].Slots.Store(streamShare)
	state, _ := r.openStream()
	require.Nil(t, state)
	_, err := r.fast.newStream(r.key())
	require.ErrorIs(t, err, ebpf.ErrKeyExist, "both have opened the stream")
	r.fast.reclaimer.reclaim()
	_, err = r.fast.newStream(r.key())
	require.NoError(t, err)
}

// TestReclaimerAwaitsRuns frees what programs use when no run is left that began before, and not earlier (I10).
func TestReclaimerAwaitsRuns(t *testing.T) {
	r := newLateRig(t)
	f := r.fast
	inUse := map[string]bool{"memory": true}
	lists := func() int {
		return len(keysOf(f.kernel.tracks.elements, func(*bpf.VersionKey, *bpf.Track) bool { return true }))
	}
	before := lists()
	look := func() map[string]bool {
		inUse["connection"] = !slices.Contains(f.conns.ready, r.subscriber.index)
		inUse["track"] = !slices.Contains(f.tracks.free, r.track.index)
		inUse["subscribers"] = lists() == before
		return maps.Clone(inUse)
	}
	f.reclaimer.afterRuns(func() { inUse["memory"] = false })
	r.subscriber.Close()
	r.track.Close()

	var during []map[string]bool
	f.kernel.machine = &Machine{AwaitUnused: func() { during = append(during, look()) }}
	defer func() { f.kernel.machine = nil }()
	f.reclaimer.reclaim()
	f.reclaimer.freeTracks()
	require.Equal(t, []map[string]bool{
		{"memory": true, "connection": true, "subscribers": true, "track": true},
		{"memory": false, "connection": false, "subscribers": false, "track": true},
	}, during)
	require.False(t, look()["track"])
}
