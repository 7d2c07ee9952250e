package fastpath

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
	"sluice/lab"
	"sluice/moqt"
)

// TestTruncatedHeaders sends authentic packets that end at every byte of the headers in them: incomplete headers are
// left to user space.
func TestTruncatedHeaders(t *testing.T) {
	r, track := objectRig(t, 1)
	s := r.subscribers[0]
	r.kernel.conns[s.index].MaxUni = 1 << 20
	id := uint64(3)
	for _, typ := range []int{0x10, 0x12, 0x14, 0x15, 0x30, 0x34, 0x3d} {
		header := concat(typ, vi64(77), vi64(1<<40+id))
		if typ&6 == 4 {
			header = append(header, vi64(300)...)
		}
		if typ&0x20 == 0 {
			header = append(header, 9)
		}
		object := concat(vi64(1<<20), 6, "object")
		for n := range len(header) {
			r.publish(stream(id, 0, 0, header[:n]))
			id += 4
		}
		counts := r.counts()
		require.Zero(t, counts["copy_sent"], "type %#x: %v", typ, counts)
		r.publish(stream(id, 0, 0, append(header, object...)))
		r.receive(s)
		require.NoError(t, r.clearReasons())
		id += 4
	}

	// The frames' own headers, at the end of a packet.
	whole := [][]byte{
		stream(id, 0, 0, append(subgroupHeader(77, 1, 1, 9), "object"...)), concat(0x31, uint64(20), object(9, 1)[1:]),
		concat(2, uint64(1000), uint64(3), uint64(2), uint64(5), uint64(1), uint64(2), uint64(70000), uint64(9)),
		concat(0x18, uint64(70), uint64(3), 8, "12345678", make([]byte, 16)), concat(0x1a, "12345678"), concat(0x11,
			uint64(3), uint64(1<<40)), concat(4, uint64(3), uint64(0), uint64(1<<50)),
	}
	for _, f := range whole {
		for n := 1; n < len(f); n++ {
			before := r.counts()
			r.publish(f[:n])
			after := r.counts()
			refused := func(c map[string]uint64) uint64 { // what follows is noise
				return c["packet_malformed"] + c["packet_unknown_frame"]
			}
			require.Equal(t, refused(before)+1, refused(after), "%x", f[:n])
			require.Equal(t, before["copy_sent"], after["copy_sent"])
		}
	}
	require.Empty(t, track.ClaimObject(moqt.Location{Group: 9, Object: 1}))
}

// clearReasons resets the counters.
func (r *rig) clearReasons() error {
	cpus, err := ebpf.PossibleCPU()
	for reason := range r.reasons {
		if err == nil {
			err = r.ingress.Reasons.Put(uint32(reason), make([]uint64, cpus))
		}
	}
	return err
}

// TestOversizedIntegers puts the largest integers where lengths, numbers and identifiers are.
func TestOversizedIntegers(t *testing.T) {
	const huge = 1<<62 - 1
	r, _ := objectRig(t, 1)
	s := r.subscribers[0]
	first := append(subgroupHeader(77, 1, 1, 9), "object"...)
	r.publish(stream(3, 0, 0, first))
	r.receive(s)
	for _, tt := range []struct {
		frame  []byte
		reason string
	}{
		{concat(0x0e, uint64(3), uint64(len(first)), uint64(huge), "short"), "packet_malformed"},
		{concat(0x0e, uint64(3), uint64(len(first)), uint64(1<<32+5), "short"), "packet_malformed"},
		{concat(0x31, uint64(huge), object(5, 1)[1:]), "packet_malformed"},
		{concat(0x31, uint64(1<<32+3), object(5, 1)[1:]), "packet_malformed"},
		{stream(3, huge, 0, []byte("far away")), "copy_out_of_order"},
		{stream(3, huge-3, 1, []byte("beyond the end")), "copy_out_of_order"},
		{stream(3, 1<<32+uint64(len(first)), 0, []byte("wraps")), "copy_out_of_order"},
		{stream(huge, uint64(len(first)), 0, []byte("no such stream")), "frame_not_media"},
		{stream(7, 0, 0, concat(0x14, vi64(1<<64-1), vi64(1), vi64(1), 9, "object")), "frame_no_track"},
		{concat(0x30, 0, vi64(1<<64-1), vi64(1), vi64(1), 9, "object"), "frame_no_track"},
		{concat(0x30, 1, vi64(77), vi64(1), vi64(1), 9, vi64(1<<64-1), "object"), "frame_not_media"},
		{concat(2, uint64(huge), uint64(huge), uint64(huge), uint64(huge), make([]byte, 50)), "packet_unknown_frame"},
		{concat(2, uint64(huge), uint64(huge), uint64(250), uint64(huge), make([]byte, 50)), "packet_malformed"},
		{concat(0x18, uint64(huge), uint64(huge), 255, make([]byte, 50)), "packet_malformed"},
		{concat(uint64(huge), make([]byte, 50)), "packet_unknown_frame"},
	} {
		before := r.counts()
		r.publish(tt.frame)
		after := r.counts()
		require.Equal(t, before[tt.reason]+1, after[tt.reason], "%x: %v", tt.frame, after)
		require.Equal(t, before["copy_sent"], after["copy_sent"], "%x", tt.frame)
	}
	// Large but valid values are forwarded.
	r.publish(stream(huge, 0, 1, append(subgroupHeader(77, 1<<64-1, 1<<64-1, 9), "object"...)))
	require.Equal(t, append(subgroupHeader(1000, 1<<64-1, 1<<64-1, 9), "object"...), r.receive(s).data)
	r.publish(concat(0x30, 0, vi64(77), vi64(1<<64-1), vi64(1<<64-1), 9, "object"))
	require.Equal(t, concat(0, vi64(1000), vi64(1<<64-1), vi64(1<<64-1), 9, "object"), r.receiveDatagram(s))
}

// TestForeignTracks sends packets of a second publisher for the first one's track: with its alias, on its stream, and
// with its connection ID.
func TestForeignTracks(t *testing.T) {
	r, track := objectRig(t, 2)
	const other = 10
	cid, keys := []byte("87654321"), randomPacketKeys()
	r.addPublisher(other, cid, keys)
	first := append(subgroupHeader(77, 1, 1, 9), "object"...)
	r.publish(stream(3, 0, 0, first))
	for _, s := range r.subscribers {
		r.receive(s)
	}
	send := func(p []byte, reasons ...string) {
		t.Helper()
		before := r.counts()
		r.publishPacket(p)
		after := r.counts()
		n := uint64(0)
		for _, reason := range reasons {
			n += after[reason] - before[reason]
		}
		require.EqualValues(t, 1, n, "%v", after)
		require.Equal(t, before["copy_sent"], after["copy_sent"])
	}
	send(packet(keys, cid, 1, 4, 0, stream(7, 0, 1, append(subgroupHeader(77, 2, 1, 9), "mine"...))), "frame_no_track")
	send(packet(keys, cid, 2, 4, 0, object(5, 1)), "frame_no_track")
	send(packet(keys, cid, 3, 4, 0, stream(3, uint64(len(first)), 0, []byte("more"))), "frame_not_media")
	send(packet(keys, publisherCID, 4, 4, 0, object(5, 1)), "packet_forged", "packet_no_key")
	send(packet(r.keys, cid, 5, 4, 0, object(5, 1)), "packet_forged", "packet_no_key")
	require.Empty(t, track.ClaimObject(moqt.Location{Group: 5, Object: 1}))
}

// TestTrackOfAnotherPublisher gives a track to another publisher. What goes on with a stream of the former one is user
// space's.
func TestTrackOfAnotherPublisher(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	first := append(subgroupHeader(77, 1, 1, 9), "object"...)
	r.publish(stream(3, 0, 0, first))
	r.receive(r.subscribers[0])
	taken := bpf.Track{DefaultPriority: 128, Publisher: publisherIndex + 1, Alias: 77}
	subscriptions := []bpf.Subscription{r.subscription(r.subscribers[0])}
	require.NoError(t, r.kernel.tracks.put(5, trackValue(taken, subscriptions)...))
	r.publish(stream(3, uint64(len(first)), 0, []byte("more")))
	require.EqualValues(t, 1, r.counts()["frame_no_track"])
	require.EqualValues(t, 1, r.counts()["copy_sent"])
}

// TestSpoofedAddresses sends packets with the source address of a subscriber, or of the publisher: no packet is
// redirected, and only authentic ones are forwarded.
func TestSpoofedAddresses(t *testing.T) {
	r, _ := objectRig(t, 2)
	victim := r.subscribers[0]
	neighbors := func() (all []bpf.Neighbor) {
		keysOf(r.ingress.Neighbors, func(_ *bpf.UDPPath, n *bpf.Neighbor) bool { all = append(all, *n); return false })
		slices.SortFunc(all, func(a, b bpf.Neighbor) int { return slices.Compare(a.Dmac[:], b.Dmac[:]) })
		return all
	}
	known := neighbors()
	require.NotEmpty(t, known)
	spoofed := func(p []byte) {
		from := netip.AddrPortFrom(victim.address(t), 9000)
		r.runFrame(concat(make([]byte, 6), 2, 7, 7, 7, 7, 7, udpFrame(from, r.relayAddr(), p)))
	}
	spoofed(bpftest.RandomBytes(200))
	spoofed(append([]byte{0x43}, concat(publisherCID, bpftest.RandomBytes(200))...))
	spoofed(packet(randomPacketKeys(), publisherCID, 5, 4, 0, object(1, 1)))
	require.EqualValues(t, 2, r.counts()["packet_forged"]+r.counts()["packet_no_key"], "%v", r.counts())
	require.Zero(t, r.counts()["copy_sent"])

	p := packet(r.keys, publisherCID, 6, 4, 0, slices.Concat(object(1, 2), nil))
	r.publishPacket(p)
	for _, s := range r.subscribers {
		r.receiveDatagram(s)
	}
	sent := r.counts()["copy_sent"]
	spoofed(p) // replayed by another host
	spoofed(packet(r.keys, publisherCID, 7, 4, 0, object(1, 4)))
	require.EqualValues(t, 2, r.counts()["packet_other_path"])
	require.Equal(t, sent, r.counts()["copy_sent"])
	require.Equal(t, known, neighbors())
	r.publish(object(1, 3))
	r.receiveDatagram(victim)
}

// TestForeignSenders has others send to a subscriber from the relay's port: another program of this machine, from
// another address, and another machine, whose packets this one forwards. They do not change where copies go.
func TestForeignSenders(t *testing.T) {
	r, _ := objectRig(t, 1)
	s := r.subscribers[0]
	local := netip.AddrPortFrom(r.address(r.lab.Relay.Facing(r.lab.Subscribers[0])), relayPort)
	remote := netip.AddrPortFrom(s.address(t), 9000)
	neighbors := func() (paths []bpf.UDPPath, all []bpf.Neighbor) {
		keysOf(r.ingress.Neighbors, func(p *bpf.UDPPath, n *bpf.Neighbor) bool {
			paths, all = append(paths, *p), append(all, *n)
			return false
		})
		return paths, all
	}
	paths, known := neighbors()
	require.Equal(t, []bpf.UDPPath{udpPath(local, remote)}, paths)
	leave := func(from netip.AddrPort, ingress uint32) {
		frame := concat(2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8, udpFrame(from, remote, []byte("payload")))
		context := [16]uint32{ingressAt / 4: ingress}
		require.NoError(t, r.lab.Relay.Do(func() error {
			_, err := r.egress.ClientEgress.Run(&ebpf.RunOptions{Data: frame, Context: context})
			return err
		}))
	}
	leave(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.77"), relayPort), 0)
	var n bpf.Neighbor
	require.NoError(t, r.ingress.Neighbors.Lookup(udpPath(local, remote), &n))
	require.Equal(t, known[0], n)
	before, _ := neighbors()
	leave(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.78"), relayPort), 1)
	leave(local, 1)
	after, _ := neighbors()
	require.ElementsMatch(t, before, after, "forwarded packets are not looked at")
	r.publish(object(1, 1))
	r.receiveDatagram(s)
}

// TestHostileFrames sends authentic packets of mutated frames: subscribers can open every packet that leaves, and the
// shared state stays consistent.
func TestHostileFrames(t *testing.T) {
	r, _ := objectRig(t, 1)
	s, state := r.subscribers[0], &r.kernel.conns[0]
	state.MaxUni, state.DataLimit = 1<<20, 1<<40
	seed := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(3000) {
		payload := slices.Concat(
			stream(3+4*i, 0, 0, append(subgroupHeader(77, i, 1, 9), "object"...)), object(i, 1), concat(0x31,
				uint64(12), object(i, 2)[1:]),
			concat(2, uint64(1000), uint64(3), uint64(0), uint64(5)), stream(3+4*i, 11, 1, []byte("the end")))
		for range 1 + seed.IntN(6) {
			payload[seed.IntN(len(payload))] = byte(seed.Uint32())
		}
		state.InFlight, state.LedgerLow, state.Packets = 0, state.NextPn, 0
		r.run(payload[:1+seed.IntN(len(payload))])
		require.Zero(t, state.Writers)
		for range state.Packets {
			_, opened := openPacket(t, s.keys, s.cid, r.receivePacket(s))
			require.Contains(t, []byte{0x08, 0x09, 0x0c, 0x0d, 0x30}, opened[0])
		}
	}
	t.Log(r.counts())
	require.NotZero(t, r.counts()["copy_sent"])
	require.NotZero(t, r.counts()["packet_malformed"])
}
