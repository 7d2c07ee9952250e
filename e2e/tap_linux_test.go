package e2e

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/rtt/traffic"
)

// tap adds a device that gets the frames which are written to the function's result, as from a tap.
func (in inside) tap(device string) (send func(frame []byte)) {
	var fd int
	var to unix.SockaddrLinklayer
	require.NoError(in.t, in.Do(func() (err error) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = device
		link := &netlink.Veth{LinkAttrs: attrs, PeerName: device + "-switch"}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		peer, err := netlink.LinkByName(device + "-switch")
		if err != nil {
			return err
		}
		to.Ifindex = peer.Attrs().Index
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetUp(link), netlink.LinkSetUp(peer))
	}))
	in.t.Cleanup(func() { _ = unix.Close(fd) })
	// A frame may be lost where there is no room for it.
	return func(frame []byte) { _ = unix.Sendto(fd, frame, 0, &to) }
}

// slower is how often the traffic takes twice as long as before.
const slower = 20 * time.Second

// A player sends traffic until it is stopped.
type player struct {
	sync.WaitGroup
	send  func(frame []byte)
	begin time.Time
	stop  chan struct{}
}

// play sends traffic until the test ends: of customers and pings, which become slower and slower, of a QUIC connection,
// and of others whose servers' packets go another way.
func play(t *testing.T, send func(frame []byte)) {
	p := &player{send: send, begin: time.Now(), stop: make(chan struct{})}
	t.Cleanup(func() {
		close(p.stop)
		p.Wait()
	})
	p.Go(p.customers)
	p.Go(p.pings)
	p.Go(p.quic)
	p.Go(p.oneDirection)
}

// pause reports whether the traffic goes on after a time.
func (p *player) pause(d time.Duration) bool {
	select {
	case <-p.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// slowed returns how long takes what took a time at the beginning.
func (p *player) slowed(d time.Duration) time.Duration {
	return d << min(time.Since(p.begin)/slower, 5)
}

func (p *player) customers() {
	due, before := p.begin, p.begin
	for packet := range traffic.Packets(traffic.Config{
		Seed: 1, Begin: p.begin, Length: time.Hour, Day: 24 * time.Hour, Flows: 30, Prefixes: 10,
	}) {
		due = due.Add(p.slowed(packet.At.Sub(before)))
		before = packet.At
		if !p.pause(time.Until(due)) {
			return
		}
		p.send(append(packet.Frame, make([]byte, packet.Length-len(packet.Frame))...))
	}
}

// pings are enough in each second that an alert can follow them. No host of the lab has their addresses: the monitor
// does not time what is for its own host.
func (p *player) pings() {
	from, to := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("203.0.113.2")
	echo := func(from, to netip.Addr, kind uint8, n uint16) []byte {
		return frame(from, to, 0, layers.IPProtocolICMPv4, &layers.ICMPv4{
			TypeCode: layers.CreateICMPv4TypeCode(kind, 0), Id: 1, Seq: n,
		})
	}
	for n := uint16(0); p.pause(20 * time.Millisecond); n++ {
		p.send(echo(from, to, layers.ICMPv4TypeEchoRequest, n))
		p.Go(func() {
			if p.pause(p.slowed(10 * time.Millisecond)) {
				p.send(echo(to, from, layers.ICMPv4TypeEchoReply, n))
			}
		})
	}
}

// quic sends a download by QUIC with loss bits (RFC 9506): the server sends blocks of 64 packets, of which every
// 16th is lost before the tap, and one of those after it says so. ECN marks some of them.
func (p *player) quic() {
	client, server := netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("203.0.113.1:443")
	ids := [][]byte{bytes.Repeat([]byte{1}, 8), bytes.Repeat([]byte{2}, 8), bytes.Repeat([]byte{3}, 8)}
	p.send(udp(client, server, 0, long(initial, ids[2], ids[0])))
	p.pause(20 * time.Millisecond)
	p.send(udp(server, client, 0, long(initial, ids[0], ids[1])))
	p.pause(20 * time.Millisecond)
	p.send(udp(client, server, 0, long(handshake, ids[1], ids[0])))
	const short, squareBit, lossEventBit = 0x40, 0x10, 0x08
	const capable, marked = 2, 3 // ECN codepoints
	for n := 0; p.pause(2 * time.Millisecond); n++ {
		first, ecn := byte(short), byte(capable)
		if n/64%2 == 1 {
			first |= squareBit
		}
		switch n % 16 {
		case 0:
			continue
		case 1:
			first |= lossEventBit
		case 2:
			ecn = marked
		}
		p.send(udp(server, client, ecn, append(append([]byte{first}, ids[0]...), make([]byte, 100)...)))
		if n%8 == 7 {
			p.send(udp(client, server, 0, append(append([]byte{short}, ids[1]...), make([]byte, 30)...)))
		}
	}
}

// oneDirection sends what clients of QUIC send in their handshakes, and nothing of the server.
func (p *player) oneDirection() {
	client, server := netip.MustParseAddr("10.0.0.3"), netip.MustParseAddrPort("203.0.113.3:443")
	id := bytes.Repeat([]byte{4}, 8)
	for port := uint16(20000); port < 60000; port++ {
		from := netip.AddrPortFrom(client, port)
		p.send(udp(from, server, 0, long(initial, bytes.Repeat([]byte{5}, 8), id)))
		if !p.pause(20 * time.Millisecond) {
			return
		}
		p.send(udp(from, server, 0, long(handshake, bytes.Repeat([]byte{6}, 8), id)))
		if !p.pause(100 * time.Millisecond) {
			return
		}
	}
}

// First bytes of long headers.
const initial, handshake = 0xc0, 0xe0

// long returns a datagram of 1,200 bytes with a long header of QUIC version 1.
func long(first byte, destination, source []byte) []byte {
	b := append([]byte{first, 0, 0, 0, 1, byte(len(destination))}, destination...)
	b = append(append(b, byte(len(source))), source...)
	return append(b, make([]byte, 1200-len(b))...)
}

// udp returns a frame with a datagram.
func udp(from, to netip.AddrPort, ecn uint8, payload []byte) []byte {
	return frame(from.Addr(), to.Addr(), ecn, layers.IPProtocolUDP, &layers.UDP{
		SrcPort: layers.UDPPort(from.Port()), DstPort: layers.UDPPort(to.Port()),
	}, gopacket.Payload(payload))
}

// frame returns a frame with an IPv4 packet.
func frame(from, to netip.Addr, ecn uint8, protocol layers.IPProtocol, inner ...gopacket.SerializableLayer) []byte {
	ip := &layers.IPv4{
		Version: 4, TTL: 64, TOS: ecn, Protocol: protocol, SrcIP: from.AsSlice(), DstIP: to.AsSlice(),
	}
	if header, ok := inner[0].(*layers.UDP); ok {
		_ = header.SetNetworkLayerForChecksum(ip) // which is one
	}
	b := gopacket.NewSerializeBuffer()
	_ = gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, // they fit
		append([]gopacket.SerializableLayer{&layers.Ethernet{
			SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
			EthernetType: layers.EthernetTypeIPv4,
		}, ip}, inner...)...)
	return b.Bytes()
}
