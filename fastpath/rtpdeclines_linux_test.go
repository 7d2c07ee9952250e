package fastpath

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
	"sluice/internal/rtpframe"
	"sluice/lab"
)

// frame is an Ethernet frame with a packet of the publisher's.
func (r *rtpRig) frame(p []byte) []byte {
	return concat(make([]byte, 12), udpFrame(r.publisherAddr(), r.relayAddr(), p))
}

// TestRTPDeclines checks why a packet is not offered to players, and why a player does not get a copy.
func TestRTPDeclines(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{MaxCopies: 1})
	p := r.join(r.lab.Subscribers[0])
	p.Forward(true)
	next := 0
	packet := func(change ...func(p []byte)) []byte {
		next++
		p := rtpPacket(next, "payload")
		for _, c := range change {
			c(p)
		}
		return p
	}
	ok := func() []byte { return packet() }
	header := func(b byte) func([]byte) { return func(p []byte) { p[0] = b } }
	from := func(a netip.AddrPort) func() {
		return func() { r.runFrame(concat(make([]byte, 12), udpFrame(a, r.relayAddr(), ok()))) }
	}
	changed := func(at int, b byte) func() {
		return func() {
			f := r.frame(ok())
			f[at] ^= b
			r.runFrame(f)
		}
	}
	const (
		ethernet, ip, udp = 0, 14, 34
		forwarded         = "rtp_forwarded"
		largest           = int(bpf.RTPRtpLimitsMAX_RTP)
	)
	other := netip.MustParseAddrPort("192.0.2.1:5000")
	for _, tt := range []struct {
		name string
		run  func()
		why  string // the packet is declined
		copy string // the copy is declined
	}{
		{"as expected", func() { r.run(ok()) }, forwarded, "copy_sent"},
		{"CSRCs", func() { r.run(packet(header(0x81))) }, forwarded, "copy_sent"},
		{"the largest", func() { r.run(rtpPacket(900, make([]byte, largest-12))) }, forwarded, "copy_sent"},
		{"the last of the slots", func() { r.run(rtpPacket(1023, "payload")) }, forwarded, "copy_sent"},
		{"beyond the slots", func() { r.run(rtpPacket(1024, "payload")) }, "rtp_ahead", ""},
		{"handled", func() { r.run(rtpPacket(0, "payload")) }, "rtp_old", ""},
		{"before what was handled", func() { r.run(rtpPacket(-1, "payload")) }, "rtp_old", ""},
		{"twice", func() { r.run(rtpPacket(1, "payload")) }, "rtp_claimed", ""},
		{"with another timestamp", func() {
			p := rtpPacket(1, "payload")
			p[7]++
			r.run(p)
		}, "rtp_claimed", ""},
		{"version 1", func() { r.run(packet(header(0x40))) }, "rtp_header", ""},
		{"padding", func() { r.run(packet(header(0xa0))) }, "rtp_header", ""},
		{"extension", func() { r.run(packet(header(0x90))) }, "rtp_header", ""},
		{"more CSRCs than bytes", func() { r.run(packet(header(0x82))) }, "rtp_header", ""},
		{"payload type", func() { r.run(packet(func(p []byte) { p[1] = 97 })) }, "rtp_payload_type", ""},
		{"SSRC", func() { r.run(packet(func(p []byte) { p[11]++ })) }, "rtp_ssrc", ""},
		{"no payload", func() { r.run(rtpPacket(10)) }, "packet_too_short", ""},
		{"too long", func() { r.run(rtpPacket(10, make([]byte, largest-11))) }, "packet_too_long", ""},
		{"another address", from(other), "rtp_unknown", ""},
		{"another port", from(netip.AddrPortFrom(r.publisherAddr().Addr(), 5001)), "rtp_unknown", ""},
		{"to another address", func() {
			to := netip.AddrPortFrom(other.Addr(), rtpPort)
			r.runFrame(concat(make([]byte, 12), udpFrame(r.publisherAddr(), to, ok())))
		}, "packet_other_path", ""},
		{"link-layer multicast", changed(ethernet, 1), "packet_other_host", ""},
		{"IP checksum", changed(ip+10, 1), "packet_bad_header", ""},
		{"UDP checksum", changed(udp+7, 1), "packet_checksum", ""},
		{"damaged payload", changed(udp+8+14, 1), "packet_checksum", ""},
		{"no UDP checksum", func() {
			f := r.frame(ok())
			f[udp+6], f[udp+7] = 0, 0
			r.runFrame(f)
		}, forwarded, "copy_sent"},
		{"paused", func() { r.media.Pause(true); r.run(ok()); r.media.Pause(false) }, "rtp_paused", ""},
		{"not paused any more", func() { r.run(ok()) }, forwarded, "copy_sent"},
		{"MTU", func() {
			p.shared().Mtu = 20 + 8 + 12 + 6
			r.run(ok())
			p.shared().Mtu++
		}, forwarded, "copy_too_large"},
		{"it fits", func() { r.run(ok()); p.shared().Mtu = 1500 }, forwarded, "copy_sent"},
		{"no neighbour", func() {
			require.NoError(t, r.kernel.ingress.Neighbors.Delete(udpPath(p.path.Local, p.path.Remote)))
			r.run(ok())
		}, forwarded, "copy_no_neighbor"},
		{"not forwarded", func() { p.Forward(false); r.run(ok()) }, forwarded, ""},
	} {
		got := r.counted(tt.run)
		want := map[string]uint64{tt.why: 1}
		if tt.copy != "" {
			want[tt.copy] = 1
		}
		require.Equal(t, want, got, tt.name)
	}
}

// shared is the programs' state of the player.
func (p *rtpPlayer) shared() *bpf.RTPPlayer { return &p.media.shared.Players[p.position] }

// TestRTPBudget checks that without workers no more copies are made than the budget allows, and that user space knows.
func TestRTPBudget(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{MaxCopies: 1})
	for range 7 {
		r.join(r.lab.Subscribers[0]).Forward(true)
	}
	p := rtpPacket(1, "payload")
	got := r.counted(func() { r.run(p) })
	require.Equal(t, map[string]uint64{"rtp_forwarded": 1, "copy_sent": 4, "copy_budget": 1}, got)
	served := r.take(p)
	for i, player := range r.players {
		require.Equal(t, i < 4, served.Has(player.RTPPlayer))
	}
}

// TestRTPShares checks that one source takes neither all positions of a media nor all medias.
func TestRTPShares(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
	path := RTPPath{Local: r.relayAddr(), MTU: 1500}
	join := func(a string) (n int, all []*RTPPlayer) {
		path.Remote = netip.AddrPortFrom(netip.MustParseAddr(a), 9000)
		for p := r.media.Join(path, new(rtpframe.Flow)); p != nil; p = r.media.Join(path, new(rtpframe.Flow)) {
			n, all = n+1, append(all, p)
		}
		return n, all
	}
	n, all := join("192.0.2.1")
	require.Equal(t, MaxPlayers/2, n)
	n, _ = join("192.0.2.2")
	require.Equal(t, MaxPlayers/4, n)
	all[0].Leave()
	all[0].Leave() // does nothing
	for r.media.Join(path, new(rtpframe.Flow)) == nil {
		awaitGracePeriod() // the position is free when no program can be using it
	}

	k := r.media.rtp
	medias := 0
	for {
		if _, _, err := k.take(sourceOf(netip.MustParseAddr("192.0.2.1"))); err != nil {
			break
		}
		medias++
	}
	require.Equal(t, MaxRTPMedias/2, medias)
}

// TestRTPSharesIPv6 checks that the addresses of a /64 have one share.
func TestRTPSharesIPv6(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, true, Settings{})
	path := RTPPath{Local: r.relayAddr(), MTU: 1500}
	join := func(prefix string) (n int) {
		bytes := netip.MustParseAddr(prefix).As16()
		for i := range MaxPlayers {
			bytes[14], bytes[15] = byte(i>>8), byte(i)
			path.Remote = netip.AddrPortFrom(netip.AddrFrom16(bytes), 9000)
			if r.media.Join(path, new(rtpframe.Flow)) != nil {
				n++
			}
		}
		return n
	}
	require.Equal(t, MaxPlayers/2, join("2001:db8::"))
	require.Equal(t, MaxPlayers/4, join("2001:db8:0:1::"))
}

// TestRTPMedias checks that a media is served while it is there, and that two medias do not have one source.
func TestRTPMedias(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
	source := r.media.source
	_, err := r.NewRTPMedia(source)
	require.Error(t, err)
	p := r.join(r.lab.Subscribers[0])
	p.Forward(true)
	r.media.Close()
	require.Equal(t, map[string]uint64{"rtp_unknown": 1}, r.counted(func() { r.run(rtpPacket(1, "payload")) }))
	p.Forward(true)
	p.Leave()
	require.Nil(t, r.media.Join(p.path, new(rtpframe.Flow)))
	require.Zero(t, r.take(rtpPacket(1, "payload")))

	r.media, err = r.NewRTPMedia(source)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"rtp_ssrc": 1}, r.counted(func() { r.run(rtpPacket(1, "payload")) }))
	r.take(rtpPacket(1, "payload"))
	p.RTPPlayer = r.media.Join(p.path, new(rtpframe.Flow))
	p.Forward(true)
	r.publish(rtpPacket(2, "payload"))
	require.Equal(t, p.copyOf(rtpPacket(2, "payload")), r.receive(p))
}

// TestRTPFamilies has IPv4 players of an IPv6 publisher, and the other way round. A device completes the checksums of
// packets that come from this machine.
func TestRTPFamilies(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		r := newRTPRig(t, lab.Topology{Subscribers: 1}, v6, Settings{})
		require.NoError(t, r.lab.Relay.Facing(r.lab.Subscribers[0]).CompleteChecksums())
		r.v6 = !v6
		p := r.join(r.lab.Subscribers[0])
		r.v6 = v6
		p.Forward(true)
		for i := 1; i < 40; i++ {
			packet := rtpPacket(i, bpftest.RandomBytes(1+i*30))
			r.run(packet)
			require.Equal(t, p.copyOf(packet), r.receive(p))
		}
		for i := 40; i < 80; i++ {
			packet := rtpPacket(i, bpftest.RandomBytes(1+i*15))
			r.publish(packet)
			require.Equal(t, p.copyOf(packet), r.receive(p))
		}
		require.Equal(t, map[string]uint64{"rtp_forwarded": 79, "copy_sent": 79}, r.counts())
	}
}

// FuzzRTP compares the programs' verdicts about packets with this package's model, and the copies, which rtp_ingress
// and a worker make for players of both families, with the packets.
func FuzzRTP(f *testing.F) {
	r := newRTPRig(f, lab.Topology{Subscribers: 1}, false,
		Settings{MaxCopies: 1, Workers: 1, jobLifetime: time.Hour})
	for i := range 6 {
		r.v6 = i%2 == 1
		r.join(r.lab.Subscribers[0]).Forward(true)
	}
	r.v6 = false
	for _, p := range [][]byte{
		rtpPacket(1, "payload"), rtpPacket(1), rtpPacket(5, make([]byte, 1500)), rtpPacket(2000, "x"),
		concat(0x8f, 96, make([]byte, 70)), concat(0x80, 0xe0, make([]byte, 9), 7, 1),
		rtpPacket(9, make([]byte, 1440)), rtpPacket(9, make([]byte, 1460)), concat(0x82, 0xe0, 0, 3, make([]byte, 7), 7,
			make([]byte, 8), "payload"),
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) == 0 || len(p) > 3000 {
			return
		}
		want := map[string]uint64{rtpModel(p): 1}
		var served []*rtpPlayer
		if want["rtp_forwarded"] > 0 {
			served = r.fitting(p)
			want["job_given"], want["job_continued"], want["copy_sent"] = 1, 1, uint64(len(served))
			if missing := len(r.players) - len(served); missing > 0 {
				want["copy_too_large"] = uint64(missing)
			}
		}
		r.media.shared.Slots = [len(r.media.shared.Slots)]bpf.RTPSlot{}
		got := r.counted(func() {
			r.run(p)
			require.Empty(t, r.media.rtp.workers.awaitAll(time.Minute))
		})
		require.Equal(t, want, got)
		for _, player := range served {
			require.Equal(t, player.copyOf(p), player.receive(t))
		}
	})
}

// fitting returns the players whose paths carry a packet.
func (r *rtpRig) fitting(p []byte) (players []*rtpPlayer) {
	for _, player := range r.players {
		headers := 20 + 8
		if player.path.Remote.Addr().Is6() {
			headers = 40 + 8
		}
		if headers+len(p) <= player.path.MTU {
			players = append(players, player)
		}
	}
	return players
}

// rtpModel returns the fate of a packet, after sequence number 0 of SSRC 7.
func rtpModel(p []byte) string {
	switch {
	case len(p) <= 12:
		return "packet_too_short"
	case len(p) > 1472:
		return "packet_too_long"
	case p[0]>>4 != 8, 12+4*int(p[0]&15) > len(p):
		return "rtp_header"
	case p[1]&0x7f != 96:
		return "rtp_payload_type"
	case binary.BigEndian.Uint32(p[8:]) != 7:
		return "rtp_ssrc"
	}
	switch n := binary.BigEndian.Uint16(p[2:]); {
	case n == 0, n >= 0x8000:
		return "rtp_old"
	case n >= 1024:
		return "rtp_ahead"
	}
	return "rtp_forwarded"
}
