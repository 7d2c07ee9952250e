package fastpath

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// UDPFrame is an Ethernet frame without its addresses.
var UDPFrame = udpFrame

// StopReclaimer leaves it to the test to call the reclaimer's functions.
var StopReclaimer = stopReclaimer

// ForgetNumbers forgets which packets have come.
func (f *FastPath) ForgetNumbers() {
	for i := range madeOfAll(f.kernel.byConn) {
		p := &f.kernel.publishers[i]
		p.FirstNumber, p.Numbers = 0, bpf.Publisher{}.Numbers
	}
}

// Knows reports whether the kernel knows the subgroup of a publisher's stream.
func (f *FastPath) Knows(publisher claim.ForwarderConn, stream uint64) bool {
	key := bpf.StreamKey{StreamId: stream, Publisher: publisher.(*conn).index}
	return f.kernel.tables.Subgroups.Lookup(key, new(bpf.Subgroup)) == nil
}

// Ended counts the ended streams that the kernel knows of, and returns how many they are thought to be.
func (f *FastPath) Ended() (there, counted int) {
	return len(keysOf(f.kernel.tables.Ended, func(*bpf.StreamKey, *uint32) bool { return true })), int(f.ended.Load())
}

// Streams counts the streams that the kernel knows of.
func (f *FastPath) Streams() int {
	return len(keysOf(f.kernel.ingress.Downstreams, func(*bpf.DownstreamKey, *uint32) bool { return true }))
}

// get returns the value with an index.
func (v *versioned[T]) get(index uint32) (value T, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	err = v.elements.Lookup(bpf.VersionKey{Version: v.current[index], Index: index}, &value)
	return value, err
}

// Raise stops the kernel from opening streams for a publisher's subgroups up to and including one.
func (t *ForwardedTrack) Raise(publisher claim.ForwarderConn, group, subgroup uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raiseSubgroupLocked(publisher.(*conn), subgroupAt(group, subgroup))
}

// AskedWithoutLength returns how often the rule of bpftest was asked without the length of a packet.
func (r *Rule) AskedWithoutLength(t testing.TB) (times uint64) {
	require.NoError(t, r.maps.Maps["asked"].Lookup(uint32(1), &times))
	return times
}

// Replay runs server_ingress on a packet in a frame, without a device. It returns the copy that the program has made
// for a subscriber with that path, and then not sent, because the path leads nowhere.
func (f *FastPath) Replay(t testing.TB, frame []byte, local, remote netip.AddrPort) (sealed []byte) {
	k := f.kernel
	require.NoError(t, k.ingress.Neighbors.Put(udpPath(local, remote), bpf.Neighbor{Ifindex: 1 << 20}))
	cpus, err := ebpf.PossibleCPU()
	require.NoError(t, err)
	scratches := make([]bpf.IngressScratch, cpus)
	require.NoError(t, k.ingress.Scratches.Put(uint32(0), scratches))
	_, err = k.ingress.ServerIngress.Run(&ebpf.RunOptions{Data: frame})
	require.NoError(t, err)
	require.NoError(t, k.ingress.Scratches.Lookup(uint32(0), &scratches))
	for i := range scratches {
		if s := &scratches[i]; s.Tail > 0 {
			const out, payload = 2048, 2048 + 128
			head := s.Buf[payload-16-16*((s.AadLen-1)/16):][:s.AadLen]
			require.True(t, bytes.HasSuffix(s.Buf[out:out+s.Head], head), "the header in the frame")
			sealed = slices.Concat(head, s.Buf[payload:payload+s.Tail])
		}
	}
	return sealed
}

// Packet is a short header packet.
func Packet(k *claim.PacketKeys, cid []byte, pn uint64, payload []byte) []byte {
	return packet(k, cid, pn, 4, 0, payload)
}

// LedgerMap returns the map that has a connection's ledger.
func LedgerMap(of claim.ForwarderConn) *ebpf.Map {
	c := of.(*conn)
	return c.fast.kernel.ledgers.arrays[c.index]
}
