package rtsp

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/ntp"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay"
)

// sinkOf keeps the packets that a player gets.
type sinkOf struct {
	packets []*rtp.Packet
	reports []rtcp.Packet
	err     error
}

func (s *sinkOf) WritePacketRTPWithNTP(_ *description.Media, p *rtp.Packet, _ time.Time) error {
	if s.err == nil {
		s.packets = append(s.packets, p)
	}
	return s.err
}

func (s *sinkOf) WritePacketRTCP(_ *description.Media, p rtcp.Packet) error {
	s.reports = append(s.reports, p)
	return nil
}

// numbers returns the numbers of the frames that a player got.
func (s *sinkOf) numbers() (list []int) {
	for _, p := range s.packets {
		list = append(list, int(p.Payload[5]))
	}
	return list
}

// streamTest is a stream with one media, H.264, without a network.
type streamTest struct {
	*stream
	t     *testing.T
	relay *relay.Relay
	next  uint32
	start uint16 // sequence number of the first packet
}

// cacheOf returns memory of which an address may have so many bytes.
func cacheOf(most int64) *share { return newPool(2*most, func() {}).share(netip.Prefix{}) }

// limitCache sets how many bytes of packets the stream may keep.
func (s *stream) limitCache(most int64) { s.cached.pool.max = 2 * most }

// testStream calls f with a stream, within a bubble.
func testStream(t *testing.T, cacheSize int64, f func(*streamTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRelay(t, relay.Config{})
		desc := broadcast()
		desc.Medias = desc.Medias[:1]
		s := &streamTest{t: t, relay: r}
		s.stream = newStream(desc, cacheOf(cacheSize), newMetrics())
		f(s)
		s.close()
		require.Zero(t, s.cached.pool.inUse(), "the cache gives back what it has taken")
	})
}

// take writes a packet as the publisher sends it, and tells whether the stream takes it.
func (s *streamTest) take(payload []byte, header rtp.Header) bool {
	return s.write(s.desc.Medias[0], &rtp.Packet{Payload: payload, Header: header}, time.Now(), time.Now())
}

// frames writes the next frames, of one packet each, and lets players catch up.
func (s *streamTest) frames(n int) {
	s.t.Helper()
	for range n {
		s.next++
		require.True(s.t, s.take(framePayload(s.next), rtp.Header{
			Version: 2, PayloadType: 96, SSRC: 7, SequenceNumber: s.start + uint16(s.next), Timestamp: s.next * 3600,
		}))
	}
	s.settle()
}

func (s *streamTest) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// player adds a player, and lets it catch up.
func (s *streamTest) player() (*player, *sinkOf) {
	s.t.Helper()
	p, sink := s.join()
	s.settle()
	return p, sink
}

func span(first, last int) (list []int) {
	for i := first; i <= last; i++ {
		list = append(list, i)
	}
	return list
}

// TestJoin checks with which packet a player begins.
func TestJoin(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		p, early := s.player()
		s.frames(15)
		_, late := s.player()
		s.frames(10)
		require.Equal(t, span(1, 25), early.numbers())
		require.Equal(t, span(11, 25), late.numbers())
		p.rest() // PAUSE
		s.frames(10)
		require.Equal(t, span(1, 25), early.numbers())
		require.True(t, p.play(s.desc.Medias, early)) // PLAY
		s.settle()
		require.Equal(t, append(span(1, 25), span(31, 35)...), early.numbers())
		p.rest()
	})
}

// TestEndWhileCatchingUp checks that a player loses no packets to the end of a stream, as it does to a new group.
func TestEndWhileCatchingUp(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		for i := range 9 * burst {
			number := uint32(1 + min(i, 1)) // one long group
			require.True(t, s.take(framePayload(number), rtp.Header{SSRC: 7, Timestamp: uint32(i)}))
		}
		p, sink := s.join()
		defer p.rest()
		s.close()
		s.settle()
		require.Len(t, sink.packets, burst)
		require.Zero(t, counted(t, s.metrics.drops, "dropped_packets_total", dropNextGroup))
		require.Zero(t, s.relay.Guests()[0].Dropped)
	})
}

// join adds a player, after it was prepared.
func (s *streamTest) join(prepare ...func(*player)) (*player, *sinkOf) {
	g, err := s.relay.Admit(s.t.Context(), relay.AuthRequest{
		Remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, Action: relay.ActionSubscribe,
		Namespace: moqt.Namespace{"live"},
	})
	require.NoError(s.t, err)
	s.t.Cleanup(g.Leave)
	p, sink := newPlayer(s.stream, g), &sinkOf{}
	for _, f := range prepare {
		f(p)
	}
	require.True(s.t, p.play(s.desc.Medias, sink))
	return p, sink
}

// TestNoCache checks that a player that cannot begin in the past begins with the next key frame, and that the cache has
// a limit.
func TestNoCache(t *testing.T) {
	const few = 12 * (packetOverhead + 6)
	testStream(t, few, func(s *streamTest) {
		s.frames(15)
		require.LessOrEqual(t, s.cached.pool.inUse(), int64(few))
		s.limitCache(1) // others have the rest
		s.frames(1)
		require.Zero(t, s.cached.pool.inUse())
		_, sink := s.player()
		s.frames(4)
		require.Empty(t, sink.packets)
		s.frames(10)
		require.Equal(t, span(21, 30), sink.numbers())
		s.limitCache(few)
		s.frames(15)
		_, late := s.player()
		require.Equal(t, span(41, 45), late.numbers())
	})
}

// TestLongGroup checks that a stream does not keep more than its share.
func TestLongGroup(t *testing.T) {
	testStream(t, 1<<30, func(s *streamTest) {
		s.frames(1)
		for range maxStreamCache / maxPacket {
			require.True(t, s.take(make([]byte, maxPacket-12), rtp.Header{SSRC: 7}))
			require.LessOrEqual(t, s.bytes, maxStreamCache)
		}
		_, sink := s.player()
		require.Empty(t, sink.packets)
		s.next = 10
		s.frames(5)
		require.Equal(t, span(11, 15), sink.numbers())
	})
}

// received returns a payload in a buffer of the size in which the library receives packets by UDP.
func received(b ...byte) []byte {
	const header, mtu = 12, 1473
	return append(make([]byte, mtu)[header:header], b...)
}

// TestCachedMemory checks that the limit of the cache is one of memory: of the buffers and extensions of packets,
// however few bytes they have, and of the list.
func TestCachedMemory(t *testing.T) {
	testStream(t, maxStreamCache, func(s *streamTest) {
		extended := rtp.Header{SSRC: 7, Extension: true, Extensions: make([]rtp.Extension, 700)}
		for _, header := range []rtp.Header{{SSRC: 7}, extended} {
			most := 0
			for range maxStreamCache / 1473 { // more than there is room for
				require.True(t, s.take(received(0x41), header))
				most = max(most, len(s.cache)-10) // from the loop before
			}
			each := 1473 + len(header.Extensions)*int(unsafe.Sizeof(rtp.Extension{}))
			require.Greater(t, most, maxStreamCache/each/3)
			require.LessOrEqual(t, most*each, maxStreamCache)
			s.frames(10) // with a key frame
			require.LessOrEqual(t, cap(s.cache), 100)
		}
	})
}

// TestNoKeyFrames checks that a player of a stream without key frames does not wait for ever.
func TestNoKeyFrames(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		s.next = 1
		_, sink := s.player()
		s.frames(2)
		require.Empty(t, sink.packets)
		time.Sleep(patience)
		s.frames(3)
		require.Equal(t, span(4, 6), sink.numbers())
	})
}

// TestSlowPlayer checks that a player with a full queue goes on with the next group.
func TestSlowPlayer(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		_, slow := s.player()
		_, other := s.player()
		s.frames(5)
		slow.err = errors.New("full")
		s.frames(2)
		slow.err = nil
		s.frames(8)
		require.Equal(t, append(span(1, 5), span(11, 15)...), slow.numbers())
		require.Equal(t, span(1, 15), other.numbers())
		gap := slow.packets[5].SequenceNumber - slow.packets[4].SequenceNumber
		require.EqualValues(t, 6, gap, "the player sees that packets are missing")
		require.EqualValues(t, 1, counted(t, s.metrics.drops, "dropped_packets_total", dropQueueFull))
	})
}

// TestRestOfKeyFrame has a player lose a packet of a frame before a packet tells that it is a key frame. It goes on
// where it was, and gets no packet twice.
func TestRestOfKeyFrame(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		_, sink := s.player()
		s.frames(2)
		for i, header := range []byte{0x09, 0x06, 0x06, 0x67, 0x65} {
			if i == 2 {
				sink.err = errors.New("full")
			}
			payload := []byte{header, 0, 0, 0, 0, byte(10 + i)}
			require.True(t, s.take(payload, rtp.Header{SSRC: 7, Timestamp: 4 * 3600}))
			sink.err = nil
		}
		s.settle()
		require.Equal(t, []int{1, 2, 10, 11, 12, 13, 14}, sink.numbers())
	})
}

// TestLargePacket checks that a packet that fits in no datagram is left out, and the rest of its group.
func TestLargePacket(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		_, sink := s.player()
		s.frames(1)
		require.True(t, s.take(make([]byte, maxPacket), rtp.Header{SSRC: 7}))
		s.frames(14)
		require.Equal(t, append(span(1, 1), span(11, 15)...), sink.numbers())
		require.EqualValues(t, 1, counted(t, s.metrics.drops, "dropped_packets_total", dropTooLarge))
		require.EqualValues(t, 1, s.relay.Guests()[0].Dropped)
	})
}

// TestSenderReports checks the figures in sender reports, and when they come.
func TestSenderReports(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		p, sink := s.join()
		h264 := s.lead.Formats[0]
		p.outlets[s.lead].reports = map[uint8]*report{96: {ssrc: 5, format: h264}}
		begin := time.Now()
		for range 25 {
			s.frames(1) // takes a second
		}
		require.Len(t, sink.reports, 3)
		for i, r := range sink.reports {
			n := uint32(10*i + 1)
			require.Equal(t, &rtcp.SenderReport{
				SSRC: 5, NTPTime: ntp.Encode(begin.Add(time.Duration(10*i) * time.Second)),
				RTPTime: 3600*n + p.outlets[s.lead].shift.timestamp, PacketCount: n, OctetCount: 6 * n,
			}, r)
		}
	})
}

// TestForeignSSRC checks that packets with another SSRC are not taken while the publisher sends, and that the publisher
// may change its own.
func TestForeignSSRC(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		_, sink := s.player()
		s.frames(1)
		s.frames(1) // takes a second
		require.True(t, s.take(framePayload(99), rtp.Header{SSRC: 8}), "the other one has been silent")
		require.False(t, s.take(framePayload(100), rtp.Header{SSRC: 7}))
		require.Equal(t, []int{1, 2, 99}, sink.numbers())
	})
}

// TestFramesOfManyPackets checks that a group begins with the first packet of its key frame, also if only a later
// packet tells that it is one.
func TestFramesOfManyPackets(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		for i, header := range []byte{0x67, 0x65, 0x41, 0x09, 0x06, 0x67, 0x68, 0x65, 0x41} {
			timestamp := uint32(0)
			if i >= 3 {
				timestamp = 3600
			}
			require.True(t, s.take([]byte{header, 0, 0, 0, 0, byte(i)}, rtp.Header{SSRC: 7, Timestamp: timestamp}))
		}
		_, sink := s.player()
		require.Equal(t, span(3, 8), sink.numbers())
	})
}
