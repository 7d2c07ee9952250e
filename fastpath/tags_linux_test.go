package fastpath

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/lab"
)

// TestTags gives the programs frames with VLAN tags: they step over one that has a priority only, and send to a
// subscriber without tags, or with the tag that the stack uses.
func TestTags(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1, SoftwareChecksums: true}, false)
	sub := r.subscription(r.subscribers[0])
	r.subscribeAll()
	p := packet(r.keys, publisherCID, 0, 4, 0, subgroupBegins(7))
	r.rawSender()(nil, concat([]byte(r.lab.Relay.Facing(r.lab.Publisher).HardwareAddr()),
		[]byte(r.lab.Publisher.Devices[0].HardwareAddr()), 0x81, 0, 0xe0, 0,
		udpFrame(r.publisherAddr(), r.relayAddr(), p)))
	r.expectPacket(p)
	require.Contains(t, string(r.receive(r.subscribers[0]).data), "object")

	// The stack's packets to a subscriber have a tag, and so do the copies.
	tag := concat(0x81, 0, 0, 5)
	local, remote := netip.MustParseAddrPort("192.0.2.1:4443"), netip.MustParseAddrPort("198.51.100.7:700")
	frame := concat(2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, tag,
		udpFrame(local, remote, []byte("handshake")))
	_, err := r.egress.ClientEgress.Run(&ebpf.RunOptions{Data: frame})
	require.NoError(t, err)
	var n bpf.Neighbor
	key := udpPath(local, remote)
	require.NoError(t, r.ingress.Neighbors.Lookup(key, &n))
	require.Equal(t, [6]uint8{2, 0, 0, 0, 0, 9}, n.Dmac)
	require.Equal(t, bigEndian16(0x8100), n.VlanProto)
	require.EqualValues(t, 5, n.VlanTci)

	// One that has two was another device's before.
	other := netip.MustParseAddrPort("198.51.100.8:700")
	frame = concat(make([]byte, 12), 0x88, 0xa8, 0, 6, tag, udpFrame(local, other, []byte("handshake")))
	_, err = r.egress.ClientEgress.Run(&ebpf.RunOptions{Data: frame})
	require.NoError(t, err)
	require.ErrorIs(t, r.ingress.Neighbors.Lookup(udpPath(local, other), new(bpf.Neighbor)), ebpf.ErrKeyNotExist)

	require.NoError(t, r.lab.Relay.Do(func() error {
		n.Ifindex = uint32(r.index(r.lab.Relay.Facing(r.lab.Subscribers[0])))
		return nil
	}))
	require.NoError(t, r.ingress.Neighbors.Put(key, n))
	require.NoError(t, r.SetPath(r.subscribers[0].index, claim.Path{
		Local: local, Remote: remote, MaxStreamData: 1 << 20,
	}, claim.Session{}))
	require.NoError(t, r.SetTrack(5, 128, []bpf.Subscription{sub}))
	sniffer := r.sniff(r.lab.Subscribers[0])
	r.nextPN = 100
	r.publish(stream(3, 0, 1, append(subgroupHeader(77, 1, 5, 9), "object"...)))
	require.EqualValues(t, 2, r.counts()["copy_sent"], "%v", r.counts())
	got := sniffer(func(p []byte) bool { return bytes.HasPrefix(p, n.Dmac[:]) })
	require.Equal(t, concat(2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, tag, 8, 0, 0x45), got[:19])
}

// sniff opens a packet socket on a host's device. The returned function waits for the first frame that matches.
func (r *rig) sniff(h *lab.Host) func(match func([]byte) bool) []byte {
	var fd int
	require.NoError(r.t, h.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(bigEndian16(unix.ETH_P_ALL)))
		return err
	}))
	r.t.Cleanup(func() { unix.Close(fd) })
	require.NoError(r.t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
	require.NoError(r.t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1))
	return func(match func([]byte) bool) []byte {
		buffer, oob := make([]byte, 4096), make([]byte, 256)
		for {
			n, o, _, _, err := unix.Recvmsg(fd, buffer, oob, 0)
			require.NoError(r.t, err)
			if !match(buffer[:n]) {
				continue
			}
			messages, err := unix.ParseSocketControlMessage(oob[:o])
			require.NoError(r.t, err)
			aux := messages[0].Data // struct tpacket_auxdata: the stack has taken the tag out
			tag := []byte{aux[19], aux[18], aux[17], aux[16]}
			return slices.Concat(buffer[:12], tag, buffer[12:n])
		}
	}
}
