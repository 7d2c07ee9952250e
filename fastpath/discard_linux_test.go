package fastpath

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab"
)

// TestDiscardedByQUIC sends packets that are authentic, and that user space discards all the same. The kernel forwards
// none of them; so subscribers get the next bytes for the same place of the stream.
func TestDiscardedByQUIC(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	const longest = 1452
	constants, err := os.ReadFile("../third_party/quic-go/src/internal/protocol/protocol.go")
	require.NoError(t, err)
	require.Contains(t, string(constants), fmt.Sprintf("const MaxPacketBufferSize = %d\n", longest))
	body := func(text string) []byte { return stream(3, 0, 1, append(subgroupHeader(77, 1, 0, 9), text...)) }
	filled := func(length int) []byte {
		p := packet(r.keys, publisherCID, 5, 4, 0, body("wrong"))
		return packet(r.keys, publisherCID, 5, 4, 0, append(make([]byte, length-len(p)), body("wrong")...))
	}
	for reason, p := range map[string][]byte{
		"packet_invalid":  packetWith(0, r.keys, publisherCID, 1, 4, body("wrong")),
		"packet_too_long": filled(longest + 1),
	} {
		r.publishPacket(p)
		require.EqualValues(t, 1, r.counts()[reason], reason)
	}
	for i, reserved := range []byte{0x08, 0x10, 0x18} {
		r.publishPacket(packetWith(0x40|reserved, r.keys, publisherCID, 2, 4, body("wrong")))
		require.EqualValues(t, 2+i, r.counts()["packet_invalid"])
	}
	r.publishPacket(packet(r.keys, publisherCID, 6, 4, 0, body("right")))
	require.Contains(t, string(r.receive(r.subscribers[0]).data), "right")
	require.Len(t, filled(longest), longest)
	r.publishPacket(filled(longest))
	require.EqualValues(t, 2, r.counts()["packet_opened"])
}

// TestDiscarded sends packets that the stack discards, or might. The kernel forwards none of them; so subscribers get
// the next bytes for the same place of the stream.
func TestDiscarded(t *testing.T) {
	const ether, ip4, ip6 = 14, 20, 40
	type cased struct {
		rig  *rig
		send func(offload, frame []byte)
		next uint64 // group
	}
	cases := make(map[bool]*cased) // by whether they are of IPv6
	for _, v6 := range []bool{false, true} {
		r := newRig(t, lab.Topology{Subscribers: 1}, v6)
		r.subscribeAll()
		cases[v6] = &cased{rig: r, send: r.rawSender()}
	}
	for _, tt := range []struct {
		name, reason string
		v6           bool
		accepted     bool   // the stack hands it to the socket all the same
		stopped      bool   // a bridge may discard it, too: only the program sees it
		offload      []byte // a struct virtio_net_hdr, as of a virtual machine; nil: nothing is left to a device
		damage       func(r *rig, f []byte) []byte
	}{
		{name: "IPv4 checksum", reason: "packet_bad_header", stopped: true, damage: func(_ *rig, f []byte) []byte {
			f[ether+10] ^= 1
			return f
		}},
		{name: "UDP checksum", reason: "packet_checksum", damage: func(_ *rig, f []byte) []byte {
			f[ether+ip4+6] ^= 1
			return f
		}},
		{name: "UDP checksum", reason: "packet_checksum", v6: true, damage: func(_ *rig, f []byte) []byte {
			f[ether+ip6+7] ^= 1
			return f
		}},
		{name: "no UDP checksum", reason: "packet_checksum", v6: true, damage: func(_ *rig, f []byte) []byte {
			return append(f[:ether+ip6+6], append([]byte{0, 0}, f[ether+ip6+8:]...)...)
		}},
		{name: "another host's link-layer address", reason: "packet_other_host", damage: func(_ *rig, f []byte) []byte {
			f[5] ^= 1
			return f
		}},
		{name: "a multicast link-layer address", reason: "packet_other_host", accepted: true,
			damage: func(_ *rig, f []byte) []byte { return append([]byte{1, 0, 0x5e, 1, 2, 3}, f[6:]...) }},
		{name: "a tag of a VLAN without a device", reason: "packet_other_host", damage: func(_ *rig, f []byte) []byte {
			return concat(f[:12], 0x81, 0, 0, 7, f[12:])
		}},
		{name: "a checksum that a device writes into the payload", reason: "packet_checksum", accepted: true,
			offload: concat(1, 0, 0, 0, 0, 0, ether+ip4, 0, 10, 0), // flags: NEEDS_CSUM; csum_start; csum_offset
			damage:  func(_ *rig, f []byte) []byte { return f }},
		{name: "more than the UDP header says", reason: "packet_bad_header", accepted: true,
			damage: func(_ *rig, f []byte) []byte {
				f = append(f, 0, 0, 0, 0)
				binary.BigEndian.PutUint16(f[ether+2:], uint16(len(f)-ether))
				copy(f[ether+10:], []byte{0, 0})
				copy(f[ether+10:], checksum(f[ether:ether+ip4]))
				return f
			}},
		{name: "another host's address", reason: "packet_other_path", damage: func(r *rig, f []byte) []byte {
			to := r.relayAddr()
			return concat(f[:12], udpFrame(r.publisherAddr(), netip.AddrPortFrom(to.Addr().Next(), to.Port()),
				f[ether+ip4+8:]))
		}},
		{name: "from an impossible address", reason: "packet_other_path", damage: func(r *rig, f []byte) []byte {
			from := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), r.publisherAddr().Port())
			return concat(f[:12], udpFrame(from, r.relayAddr(), f[ether+ip4+8:]))
		}},
		{name: "from another port", reason: "packet_other_path", accepted: true, damage: func(r *rig, f []byte) []byte {
			from := netip.AddrPortFrom(r.publisherAddr().Addr(), r.publisherAddr().Port()^1)
			return concat(f[:12], udpFrame(from, r.relayAddr(), f[ether+ip4+8:]))
		}},
	} {
		t.Run(fmt.Sprintf("%s v6=%v", tt.name, tt.v6), func(t *testing.T) {
			c := cases[tt.v6]
			r, send, group := c.rig, c.send, c.next
			c.next++
			before := r.counts()
			version := func(pn uint64, body string) (packetOf, frame []byte) {
				p := packet(r.keys, publisherCID, 2*group+pn, 4, 0, stream(3+4*group, 0, 1,
					append(subgroupHeader(77, group, 5, 9), body...)))
				return p, concat([]byte(r.lab.Relay.Facing(r.lab.Publisher).HardwareAddr()),
					[]byte(r.lab.Publisher.Devices[0].HardwareAddr()), udpFrame(r.publisherAddr(), r.relayAddr(), p))
			}
			bad, frame := version(1, "bad version")
			if frame = tt.damage(r, frame); tt.stopped {
				r.runFrame(concat(make([]byte, 6), frame[6:]))
			} else {
				send(tt.offload, frame)
			}
			if tt.accepted {
				r.expectPacket(bad)
			}
			good, frame := version(2, "good version")
			send(nil, frame)
			r.expectPacket(good)
			require.Equal(t, append(subgroupHeader(1000, group, 5, 9), "good version"...),
				r.receive(r.subscribers[0]).data)
			counted := r.counts()
			maps.DeleteFunc(counted, func(reason string, n uint64) bool { return n == before[reason] })
			for reason := range counted {
				counted[reason] -= before[reason]
			}
			require.Equal(t, map[string]uint64{tt.reason: 1, "packet_opened": 1, "frame_forwarded": 1, "copy_sent": 1},
				counted)
		})
	}
}

// rawSender returns a function that sends Ethernet frames from the publisher's device, as they are, and with what they
// leave to a device.
func (r *rig) rawSender() func(offload, frame []byte) {
	var fd int
	var to unix.SockaddrLinklayer
	require.NoError(r.t, r.lab.Publisher.Do(func() (err error) {
		to.Ifindex = r.index(r.lab.Publisher.Devices[0])
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	r.t.Cleanup(func() { unix.Close(fd) })
	require.NoError(r.t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1))
	return func(offload, frame []byte) {
		if offload == nil {
			offload = make([]byte, 10)
		}
		require.NoError(r.t, unix.Sendto(fd, concat(offload, frame), 0, &to))
	}
}

// TestMerged runs the program on a packet that consists of several, whose number nobody has computed: from a virtual
// machine that uses UDP GSO.
func TestMerged(t *testing.T) {
	r := newRig(t, lab.Topology{}, false)
	context := make([]byte, 192)                      // struct __sk_buff
	binary.LittleEndian.PutUint32(context[176:], 600) // gso_size
	frame := concat(make([]byte, 12), udpFrame(r.publisherAddr(), r.relayAddr(),
		packet(r.keys, publisherCID, 0, 4, 0, make([]byte, 1000))))
	_, err := r.ingress.ServerIngress.Run(&ebpf.RunOptions{Data: frame, Context: context})
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"packet_gso": 1}, r.counts())
}

// TestChecksums sends packets of every length with checksums of their own, as from a device that verifies none.
func TestChecksums(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		r := newRig(t, lab.Topology{SoftwareChecksums: true}, v6)
		sent := uint64(0)
		for n := 4; n <= 1400; n += 1 + n/100 {
			r.publish(make([]byte, n)) // padding
			sent++
		}
		require.Equal(t, map[string]uint64{"packet_opened": sent}, r.counts(), "v6=%v", v6)
	}
}

// TestReplays sends packets of the publisher's again. Each is forwarded once, whatever is in it.
func TestReplays(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	number := func(pn uint64) []byte { return packet(r.keys, publisherCID, pn, 4, 0, []byte{1, 0, 0, 0}) }
	for _, step := range []struct {
		pn     uint64
		reason string
	}{
		{0, "packet_opened"}, {0, "packet_replayed"}, {5, "packet_opened"}, {4, "packet_opened"},
		{5, "packet_replayed"},
		{4, "packet_replayed"}, {1023, "packet_opened"}, {1031, "packet_opened"}, // in the word that had 0 to 31
		{4, "packet_old"}, {6, "packet_old"}, {1023, "packet_replayed"}, {1022, "packet_opened"}, {40, "packet_opened"},
		{1 << 30, "packet_opened"}, {1024, "packet_old"}, {1023, "packet_replayed"}, {1<<30 + 1<<29, "packet_opened"},
		{1 << 30, "packet_old"},
	} {
		before := r.counts()[step.reason]
		r.runPacket(number(step.pn))
		require.Equal(t, before+1, r.counts()[step.reason], "packet %d: %v", step.pn, r.counts())
	}
	r.nextPN = 1<<30 + 1<<29 + 1
	header := subgroupHeader(77, 1, 5, 9)
	p := packet(r.keys, publisherCID, r.nextPN, 4, 0, slices.Concat(stream(3, 0, 0, header), object(1, 1)))
	for range 10 {
		r.publishPacket(p)
	}
	require.EqualValues(t, 2, r.counts()["copy_sent"])
}

// TestReplaysRace runs the program on the same packets on all CPUs at a time: each is opened once.
func TestReplaysRace(t *testing.T) {
	const packets = 3000
	r := newRig(t, lab.Topology{}, false)
	frames := make([][]byte, packets)
	for pn := range uint64(packets) {
		p := packet(r.keys, publisherCID, pn, 4, 0, []byte{1, 0, 0, 0})
		frames[pn] = concat(make([]byte, 12), udpFrame(r.publisherAddr(), r.relayAddr(), p))
	}
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			for _, f := range frames {
				r.runFrame(f)
			}
		})
	}
	running.Wait()
	counts := r.counts()
	require.EqualValues(t, packets, counts["packet_opened"], "%v", counts)
	require.EqualValues(t, 2*packets, counts["packet_replayed"]+counts["packet_old"], "%v", counts)
}

// TestFirstNumber puts a track on the fast path when user space has received some packets: the kernel forwards none of
// those if they come again.
func TestFirstNumber(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	c := r.connection(publisherIndex)
	r.publishers[publisherIndex].Active = 0
	old, next := object(1, 1), object(1, 2)
	r.publish(old)
	require.EqualValues(t, 1, r.counts()["packet_inactive"])
	c.Received(0)
	r.offer(r.fast.NewTrack(), true)
	r.publishPacket(packet(r.keys, publisherCID, 0, 4, 0, old))
	require.EqualValues(t, 1, r.counts()["packet_old"])
	r.publish(next)
	r.receiveDatagram(r.subscribers[0])
}

// TestEmptyFrames sends STREAM frames that bring nothing new, on a stream that the kernel forwards: no subscriber gets
// a packet for them.
func TestEmptyFrames(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	header := subgroupHeader(77, 1, 5, 9)
	r.publish(stream(3, 0, 0, header))
	require.Equal(t, subgroupHeader(1000, 1, 5, 9), r.receive(r.subscribers[0]).data)
	for range 5 {
		r.publish(stream(3, uint64(len(header)), 0, nil))
		r.publish(stream(3, 0, 0, header))
	}
	require.Equal(t, map[string]uint64{"packet_opened": 11, "frame_forwarded": 6, "frame_empty": 5, "copy_empty": 5,
		"copy_sent": 1}, r.counts())
	r.publish(stream(3, uint64(len(header)), 1, nil)) // the end
	require.True(t, r.receive(r.subscribers[0]).fin)
}
