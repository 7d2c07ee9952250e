package fastpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/lab"
	"sluice/moqt"
)

// shareRig is a rig with two publishers, each of a track, and small maps.
type shareRig struct {
	*rig
	track *ForwardedTrack   // of the greedy publisher
	keys  *claim.PacketKeys // of the other one
	next  uint64            // the other one's packet number
}

const (
	shareSize  = 64
	otherIndex = 101
	otherAlias = 78
)

var otherCID = []byte("87654321")

func newShareRig(t *testing.T) *shareRig {
	r := &shareRig{keys: randomPacketKeys()}
	r.rig = newRigFor(t, lab.Topology{Subscribers: 1}, false, Settings{MaxSubgroups: shareSize, MaxObjects: shareSize})
	r.kernel.conns[0].MaxUni = 1 << 20
	r.fast.reclaimer.close() // the tests do its work
	t.Cleanup(func() { r.fast.reclaimer.done = make(chan struct{}) })
	r.track = r.fast.NewTrack()
	r.offer(r.track, true)
	r.addPublisher(otherIndex, otherCID, r.keys)
	r.fast.NewTrack().Forward(r.connection(otherIndex), otherAlias, 128, []Subscriber{{
		Conn: r.connection(0), Alias: 2000, Range: moqt.Range{End: moqt.Location{Group: 1<<64 - 1}}, Forward: true,
		Priority: 128,
	}})
	return r
}

// other runs the program on a packet of the other publisher's, which the kernel must forward.
func (r *shareRig) other(frame []byte) {
	r.t.Helper()
	before := r.counts()["copy_sent"]
	r.runPacket(packet(r.keys, otherCID, r.next, 4, 0, frame))
	r.next++
	require.Equal(r.t, before+1, r.counts()["copy_sent"], "%v", r.counts())
}

// first is the first frame of a stream.
func first(stream3 uint64, alias uint64) []byte {
	return stream(stream3, 0, 0, append(subgroupHeader(alias, stream3, 0, 9), "object"...))
}

func (r *shareRig) entries() (subgroups, objects, ended int) {
	subgroups = len(keysOf(r.ingress.Subgroups, func(*bpf.StreamKey, *bpf.Subgroup) bool { return true }))
	objects = len(keysOf(r.ingress.Objects, func(*bpf.ObjectKey, *bpf.ObjectClaim) bool { return true }))
	ended = len(keysOf(r.ingress.Ended, func(*bpf.StreamKey, *uint32) bool { return true }))
	return subgroups, objects, ended
}

// firstStreams returns how many subgroups the kernel knows the first streams of.
func (r *shareRig) firstStreams() int {
	return len(keysOf(r.ingress.FirstStreams, func(*bpf.SubgroupKey, *uint64) bool { return true }))
}

// TestSubgroupShare has a publisher of many short streams: it takes half of the map, and another one is served.
func TestSubgroupShare(t *testing.T) {
	r := newShareRig(t)
	id := func(i int) uint64 { return uint64(4*i + 3) }
	for i := range shareSize {
		r.run(first(id(i), 77))
	}
	require.EqualValues(t, shareSize/2, r.counts()["copy_sent"])
	require.EqualValues(t, shareSize/2, r.counts()["frame_share"])
	for i := range shareSize / 4 {
		r.other(first(id(i), otherAlias))
	}

	// User space keeps to the share, too. A stream that got no entry is user space's for good.
	last := id(shareSize)
	h := moqt.SubgroupHeader{GroupID: last, SubgroupIDMode: moqt.SubgroupIDZero}
	end := r.track.Receive(r.connection(publisherIndex), int64(last), h, 9, 5)
	subgroups, _, _ := r.entries()
	require.Equal(t, shareSize/2+shareSize/4, subgroups)
	c := r.connection(publisherIndex)
	for i := range shareSize / 2 {
		c.end(id(i), true)
	}
	r.fast.reclaimer.reclaim()
	subgroups, _, ended := r.entries()
	require.Equal(t, shareSize/4, subgroups)
	require.LessOrEqual(t, ended, shareSize/2)
	before := r.counts()["frame_ended"]
	r.run(first(last, 77))
	r.run(first(id(0), 77))
	require.Equal(t, before+2, r.counts()["frame_ended"])
	end()
	r.run(first(last, 77))
	require.Equal(t, before+3, r.counts()["frame_ended"])
	r.run(first(last+4, 77))
	require.EqualValues(t, shareSize/2+shareSize/4+1, r.counts()["copy_sent"], "there is room again")
}

// TestEndedShare ends more streams than the kernel remembers of one publisher: none of them is opened again.
func TestEndedShare(t *testing.T) {
	r := newShareRig(t)
	c := r.connection(publisherIndex)
	for i := range uint64(4 * shareSize) {
		h := moqt.SubgroupHeader{GroupID: i, SubgroupIDMode: moqt.SubgroupIDZero}
		r.track.Receive(c, int64(4*i+3), h, 9, 5)()
		if i%(shareSize/4) == 0 {
			r.fast.reclaimer.reclaim()
		}
	}
	r.fast.reclaimer.reclaim()
	subgroups, _, ended := r.entries()
	require.Zero(t, subgroups)
	require.Equal(t, shareSize/2, ended)
	require.Equal(t, ended, r.firstStreams())
	require.Len(t, c.read, shareSize/2)
	for i := range uint64(4 * shareSize) {
		r.run(first(4*i+3, 77))
	}
	require.EqualValues(t, 4*shareSize, r.counts()["frame_ended"])
	r.run(first(4*4*shareSize+3, 77))
	require.EqualValues(t, 1, r.counts()["copy_sent"])
}

// TestObjectShare has a publisher of many objects in datagrams.
func TestObjectShare(t *testing.T) {
	r := newShareRig(t)
	for i := range shareSize {
		r.run(object(1, i))
	}
	require.EqualValues(t, shareSize/2, r.counts()["copy_sent"])
	require.EqualValues(t, shareSize/2, r.counts()["frame_share"])
	for i := range shareSize / 4 {
		r.other(concat(0x30, 0, vi64(otherAlias), vi64(1), vi64(uint64(i)), 9, "object"))
	}

	// User space keeps to the share, too, and sends the object to all.
	require.Empty(t, r.track.ClaimObject(moqt.Location{Group: 1, Object: shareSize - 1}))
	_, objects, _ := r.entries()
	require.Equal(t, shareSize/2+shareSize/4, objects)
	r.fast.reclaimer.forgetObjects(monotonic())
	_, objects, _ = r.entries()
	require.Zero(t, objects)
	r.run(object(1, shareSize-1))
	require.EqualValues(t, 1, r.counts()["frame_forgotten"])
	r.run(object(1, shareSize))
	require.EqualValues(t, shareSize/2+shareSize/4+1, r.counts()["copy_sent"], "there is room again")
}

// TestSharesEnd ends a publisher that has entries, while its index goes to another connection.
func TestSharesEnd(t *testing.T) {
	r := newShareRig(t)
	c := r.connection(publisherIndex)
	for i := range uint64(10) {
		r.run(first(4*i+3, 77))
		r.run(object(1, int(i)))
	}
	c.end(3, true)
	shares := &r.kernel.shares
	require.Equal(t, [...]uint32{10, 10, 0}, shares.own[publisherIndex].Entries)
	c.Close()
	r.fast.reclaimer.reclaim()
	require.Equal(t, [...]uint32{0, 10, 0}, shares.all[0].Entries)
	require.Zero(t, r.fast.ended.Load())
	require.Zero(t, r.firstStreams())
	next := r.fast.connect(publisherIndex, func(*claim.StreamState) {})
	defer next.Close()
	require.Zero(t, shares.own[publisherIndex].Entries)
	r.fast.reclaimer.forgetObjects(monotonic())
	require.Zero(t, shares.all[0].Entries)
	require.Zero(t, shares.own[publisherIndex].Entries)
}

// TestTracksOfUserSpace expects no entries for tracks that the kernel does not forward.
func TestTracksOfUserSpace(t *testing.T) {
	r := newShareRig(t)
	c, track := r.connection(otherIndex), r.fast.NewTrack()
	defer track.Close()
	for i := range uint64(4 * shareSize) {
		h := moqt.SubgroupHeader{GroupID: i, SubgroupIDMode: moqt.SubgroupIDZero}
		end := track.Receive(c, int64(4*i+3), h, 9, 5)
		require.Empty(t, track.ClaimObject(moqt.Location{Group: i}))
		end()
	}
	subgroups, objects, ended := r.entries()
	require.Zero(t, subgroups+objects+ended)
	require.Empty(t, c.read)
}
