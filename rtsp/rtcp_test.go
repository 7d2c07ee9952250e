package rtsp

import (
	"math"
	"net"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/relay"
	"sluice/rtsp/rtspwire"
)

// FuzzRTCP has a player send any RTCP packets. It gets packets again that it has got, twice at most and within the
// limits, and nothing that would harm others: the stream goes on, with its key frames.
func FuzzRTCP(f *testing.F) {
	for _, list := range hostileRTCP() {
		b, err := rtcp.Marshal(list)
		require.NoError(f, err)
		f.Add(b, true)
		f.Add(b[:len(b)-1], false)
	}
	r := newRelay(f, relay.Config{})
	f.Fuzz(func(t *testing.T, b []byte, byUDP bool) {
		var list []rtcp.Packet
		var err error
		testlimit.Run(t, len(b), 100, func() { list, err = rtcp.Unmarshal(b) })
		if err != nil {
			return // the library does not hand it on
		}
		p, sink := livePlayer(t, r)
		first := make(map[uint16]*rtp.Packet)
		for _, packet := range sink.packets {
			first[packet.SequenceNumber] = packet
		}
		got := len(sink.packets)
		for range maxRepeats + 1 {
			for _, packet := range list {
				p.hear(p.stream.lead.Media, packet, byUDP)
			}
		}
		times := make(map[uint16]int)
		for _, again := range sink.packets[got:] {
			require.Equal(t, first[again.SequenceNumber], again)
			times[again.SequenceNumber]++
			require.LessOrEqual(t, times[again.SequenceNumber], maxRepeats)
		}
		require.LessOrEqual(t, len(p.again.times), len(first))
		require.GreaterOrEqual(t, p.outlets[p.stream.lead].limit.Rate(), int64(0))
		got = len(sink.packets)
		writeSlice(t, p.stream, 31, 0x65)
		require.Len(t, sink.packets, got+1, "a key frame")
	})
}

// livePlayer returns a player that has got 30 frames, of three groups.
func livePlayer(t *testing.T, r *relay.Relay) (*player, *sinkOf) {
	t.Helper()
	desc := broadcast()
	s := newStream(desc, cacheOf(1<<20), newMetrics())
	t.Cleanup(s.close)
	g, err := r.Admit(t.Context(), relay.AuthRequest{
		Remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, Action: relay.ActionSubscribe,
		Namespace: moqt.Namespace{"live"},
	})
	require.NoError(t, err)
	t.Cleanup(g.Leave)
	p, sink := newPlayer(s, g), &sinkOf{}
	p.outlets[s.lead].reports = map[uint8]*report{96: {ssrc: 5, format: s.lead.Formats[0]}}
	require.True(t, p.play(desc.Medias[:1], sink))
	t.Cleanup(p.rest)
	*p.outlets[s.lead].shift = shift{sequence: 100, timestamp: 1}
	for n := range uint32(30) {
		header := byte(0x41)
		if n%10 == 0 {
			header = 0x65
		}
		writeSlice(t, s, n, header)
	}
	require.Len(t, sink.packets, 30)
	return p, sink
}

func writeSlice(t *testing.T, s *stream, n uint32, header byte) {
	t.Helper()
	p := &rtp.Packet{Payload: []byte{header, 0x80, byte(n)}, Header: rtp.Header{
		Version: 2, PayloadType: 96, SSRC: 7, SequenceNumber: uint16(n), Timestamp: n * 3600,
	}}
	require.True(t, s.write(s.lead.Media, p, time.Now(), time.Now()))
}

// hostileRTCP returns RTCP packets that a player may send: with other SSRCs, numbers without sense, and long lists.
func hostileRTCP() (all [][]rtcp.Packet) {
	long := &rtcp.TransportLayerNack{SenderSSRC: 1, MediaSSRC: 5}
	for i := range uint16(250) {
		long.Nacks = append(long.Nacks, rtcp.NackPair{PacketID: 90 + i, LostPackets: math.MaxUint16})
	}
	reports := &rtcp.ReceiverReport{SSRC: 1}
	for _, ssrc := range []uint32{5, 5, 6, 0, math.MaxUint32} {
		reports.Reports = append(reports.Reports, rtcp.ReceptionReport{
			SSRC: ssrc, FractionLost: 255, TotalLost: 1<<24 - 1, LastSequenceNumber: math.MaxUint32 - ssrc, Jitter: 1,
		})
	}
	compound := []rtcp.Packet{
		reports, &rtcp.SourceDescription{Chunks: []rtcp.SourceDescriptionChunk{{Source: 1}}}, nackOf(125, 126),
		&rtcp.Goodbye{Sources: []uint32{5, 1}},
	}
	return [][]rtcp.Packet{
		{long}, {reports}, compound, {nackOf(129, 128, 119, 100, 99)}, {nackOf(65535, 0)},
		{&rtcp.SenderReport{SSRC: 5, NTPTime: math.MaxUint64, RTPTime: math.MaxUint32, PacketCount: math.MaxUint32}},
		{&rtcp.PictureLossIndication{SenderSSRC: 1, MediaSSRC: 5}},
	}
}

// TestMalformedRTCP sends RTCP that is malformed, or for other SSRCs, to the server's port, as a player and as a
// publisher. Both stay, and well-formed RTCP has its effect.
func TestMalformedRTCP(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pub, sub := s.dialWithPorts(t, "live/cam"), s.dialWithPorts(t, "live/cam")
	port, err := pub.Record(rtspwire.H264, pub.port())
	require.NoError(t, err)
	_, err = sub.Play(sub.port())
	require.NoError(t, err)
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	rtcpTo := &net.UDPAddr{IP: to.IP, Port: port + 1}

	packet := func(n uint16) {
		b, err := (&rtp.Packet{
			Header: rtp.Header{
				Version: 2, PayloadType: 96, SSRC: 7, SequenceNumber: n, Timestamp: 3600 * uint32(n), Marker: true,
			},
			Payload: framePayload(uint32(n)),
		}).Marshal()
		require.NoError(t, err)
		_, err = pub.rtp.WriteTo(b, to)
		require.NoError(t, err)
	}
	receive := func() *rtp.Packet {
		buf, p := make([]byte, 2000), new(rtp.Packet)
		require.NoError(t, sub.rtp.SetReadDeadline(time.Now().Add(patient)))
		n, _, err := sub.rtp.ReadFrom(buf)
		require.NoError(t, err)
		require.NoError(t, p.Unmarshal(buf[:n]))
		return p
	}
	packet(1)
	first := receive()
	for _, from := range []net.PacketConn{pub.rtcp, sub.rtcp} {
		for _, list := range hostileRTCP() {
			b, err := rtcp.Marshal(list)
			require.NoError(t, err)
			for _, sent := range [][]byte{b[:len(b)-1], b[:3], b[4:], append([]byte{0xbf}, b[1:]...), b} {
				if len(sent) <= 1472 {
					_, err = from.WriteTo(sent, rtcpTo)
					require.NoError(t, err)
				}
			}
		}
	}
	packet(2)
	second := receive()
	for second.SequenceNumber == first.SequenceNumber { // one of the lists has asked for it
		second = receive()
	}
	require.Equal(t, first.SequenceNumber+1, second.SequenceNumber)
	b, err := rtcp.Marshal([]rtcp.Packet{nackOf(second.SequenceNumber)})
	require.NoError(t, err)
	before := counted(t, s, "nacked_packets_total", nackSent)
	eventually(t, "the player may ask again", func() bool {
		_, err = sub.rtcp.WriteTo(b, rtcpTo)
		require.NoError(t, err)
		return counted(t, s, "nacked_packets_total", nackSent) > before
	})
	again := receive()
	for again.SequenceNumber == first.SequenceNumber {
		again = receive()
	}
	require.Equal(t, second, again)
	require.EqualValues(t, 1, counted(t, s, "publishers"))
	require.EqualValues(t, 1, counted(t, s, "players"))
}
