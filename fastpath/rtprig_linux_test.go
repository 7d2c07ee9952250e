package fastpath

import (
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/internal/rtpframe"
	"sluice/lab"
	"sluice/lab/labtest"
)

const rtpPort = 8000

// rtpPlayer is a player on a host of its own.
type rtpPlayer struct {
	*RTPPlayer
	path RTPPath
	conn *net.UDPConn
}

// rtpRig is a publisher, a relay with the programs attached, and players.
type rtpRig struct {
	*FastPath
	t         testing.TB
	lab       *lab.Lab
	v6        bool
	publisher *net.UDPConn
	relay     *net.UDPConn
	media     *RTPMedia
	players   []*rtpPlayer
}

// newRTPRig has the kernel know a media with payload type 96 and SSRC 7, whose sequence number 0 was handled.
func newRTPRig(t testing.TB, topology lab.Topology, v6 bool, s Settings) *rtpRig {
	t.Helper()
	r := &rtpRig{t: t, v6: v6, lab: labtest.New(t, topology)}
	var err error
	s.Port, s.RTPPort = relayPort, rtpPort
	r.FastPath, err = New(s, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	require.NoError(t, r.lab.Relay.Do(func() error {
		for _, d := range r.lab.Relay.Devices {
			i, err := net.InterfaceByName(d.Name)
			require.NoError(t, err)
			if err := r.Attach(i.Index); err != nil {
				return err
			}
		}
		return nil
	}))
	r.relay, err = r.lab.Relay.ListenUDP(netip.AddrPortFrom(netip.IPv6Unspecified(), rtpPort))
	require.NoError(t, err)
	r.publisher, err = r.lab.Publisher.ListenUDP(netip.AddrPortFrom(r.address(r.lab.Publisher.Devices[0]), 5000))
	require.NoError(t, err)
	r.media, err = r.NewRTPMedia(RTPSource{
		Local: r.relayAddr(), Remote: r.publisherAddr(), PayloadType: 96, Codec: rtpframe.H264,
	})
	require.NoError(t, err)
	t.Cleanup(r.media.Close)
	r.media.Take(RTPPacket{SSRC: 7})
	return r
}

func (r *rtpRig) address(d *lab.Device) netip.Addr {
	if r.v6 {
		return d.IPv6.Addr()
	}
	return d.IPv4.Addr()
}

func (r *rtpRig) relayAddr() netip.AddrPort {
	return netip.AddrPortFrom(r.address(r.lab.Relay.Facing(r.lab.Publisher)), rtpPort)
}

func (r *rtpRig) publisherAddr() netip.AddrPort {
	return netip.AddrPortFrom(r.address(r.lab.Publisher.Devices[0]), 5000)
}

// join adds a player on a host, which the programs know how to reach.
func (r *rtpRig) join(h *lab.Host) *rtpPlayer {
	r.t.Helper()
	n := len(r.players)
	remote := netip.AddrPortFrom(r.address(h.Devices[0]), 9000+uint16(n))
	p := &rtpPlayer{path: RTPPath{
		Local: netip.AddrPortFrom(r.address(r.lab.Relay.Facing(h)), rtpPort), Remote: remote,
		SSRC: 0xf1000000 + uint32(n), Sequence: 0xfff0 + uint16(n), Timestamp: 0xffffff00 + uint32(n), MTU: 1500,
	}}
	var err error
	p.conn, err = h.ListenUDP(remote)
	require.NoError(r.t, err)
	_, err = r.relay.WriteToUDPAddrPort([]byte("hello"), remote)
	require.NoError(r.t, err)
	require.Equal(r.t, []byte("hello"), r.receive(p))
	p.RTPPlayer = r.media.Join(p.path, new(rtpframe.Flow))
	require.NotNil(r.t, p.RTPPlayer)
	r.players = append(r.players, p)
	return p
}

// receive reads one packet of a player's.
func (r *rtpRig) receive(p *rtpPlayer) []byte {
	r.t.Helper()
	return p.receive(r.t)
}

// receive reads one packet. The stack has verified the checksums.
func (p *rtpPlayer) receive(t testing.TB) []byte {
	t.Helper()
	buffer := make([]byte, 2000)
	require.NoError(t, p.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	n, from, err := p.conn.ReadFromUDPAddrPort(buffer)
	require.NoError(t, err)
	require.Equal(t, p.path.Local, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
	return buffer[:n]
}

// publish sends a packet, and waits until the relay's socket has it as it was sent.
func (r *rtpRig) publish(p []byte) {
	r.t.Helper()
	_, err := r.publisher.WriteToUDPAddrPort(p, r.relayAddr())
	require.NoError(r.t, err)
	buffer := make([]byte, 2000)
	require.NoError(r.t, r.relay.SetReadDeadline(time.Now().Add(time.Minute)))
	n, _, err := r.relay.ReadFromUDPAddrPort(buffer)
	require.NoError(r.t, err)
	require.Equal(r.t, p, buffer[:n])
}

// run runs rtp_ingress on a packet of the publisher's, which then goes nowhere.
func (r *rtpRig) run(p []byte) {
	r.runFrame(concat(make([]byte, 12), udpFrame(r.publisherAddr(), r.relayAddr(), p)))
}

// runFrame runs rtp_ingress on an Ethernet frame.
func (r *rtpRig) runFrame(frame []byte) {
	if err := r.lab.Relay.Do(func() error {
		_, err := r.media.rtp.objects.RtpIngress.Run(&ebpf.RunOptions{Data: frame})
		return err
	}); err != nil {
		panic(err)
	}
}

// counts lists the reasons that were counted, apart from packets that have nothing to do with RTP.
func (r *rtpRig) counts() map[string]uint64 {
	counts, err := r.Counts()
	if err != nil {
		panic(err) // fuzz targets have another t
	}
	for name, n := range counts {
		if n == 0 || name == "packet_not_media" || name == "rtp_not_media" {
			delete(counts, name)
		}
	}
	return counts
}

// counted returns how much each counter has grown while f ran.
func (r *rtpRig) counted(f func()) map[string]uint64 {
	before := r.counts()
	f()
	after := r.counts()
	for name, n := range before {
		if after[name] -= n; after[name] == 0 {
			delete(after, name)
		}
	}
	return after
}

// rtpPacket is a packet of the media, with a timestamp that follows from the sequence number.
func rtpPacket(sequence int, payload ...any) []byte {
	h := binary.BigEndian.AppendUint16([]byte{0x80, 96}, uint16(sequence))
	h = binary.BigEndian.AppendUint32(h, rtpTimestamp(sequence))
	return append(binary.BigEndian.AppendUint32(h, 7), concat(payload...)...)
}

func rtpTimestamp(sequence int) uint32 { return 3000 * uint32(sequence) }

// copyOf returns a packet as a player gets it.
func (p *rtpPlayer) copyOf(packet []byte) []byte {
	c := append([]byte(nil), packet...)
	binary.BigEndian.PutUint16(c[2:], binary.BigEndian.Uint16(c[2:])+p.path.Sequence)
	binary.BigEndian.PutUint32(c[4:], binary.BigEndian.Uint32(c[4:])+p.path.Timestamp)
	binary.BigEndian.PutUint32(c[8:], p.path.SSRC)
	return c
}

// take handles a packet as user space does.
func (r *rtpRig) take(p []byte) RTPServed {
	r.media.Await()
	return r.media.Take(RTPPacket{
		Sequence: binary.BigEndian.Uint16(p[2:]), Timestamp: binary.BigEndian.Uint32(p[4:]),
		SSRC: binary.BigEndian.Uint32(p[8:]),
	})
}
