package media

import (
	"crypto/tls"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/internal/packet"
)

// reading is a world in whose socket packets arrive.
type reading struct {
	*world
	sealer packet.Sealer
}

// newReading makes a world with a sent packet, whose number it returns. quic-go has no packets in flight.
func newReading(t testing.TB, configure ...func(*worldConfig)) (r *reading, sent int64) {
	r = &reading{world: newWorld(t, configure...)}
	r.install(0)
	r.s.OwnInFlight(false)
	r.stream(r.subscribe(), newTestLog(0, 10))
	return r, r.run()[0].number
}

func (r *reading) install(generation uint64) {
	k, err := packet.NewKey(generation, r.peer.suite, packet.Version1, testSecret)
	require.NoError(r.t, err)
	r.sealer.Install(generation, k)
}

// ackFrame returns an ACK frame of a range.
func ackFrame(smallest, largest int64) []byte {
	return packet.AppendFrame(nil, packet.FrameAck, uint64(largest), 125, 0, uint64(largest-smallest))
}

// packet returns a packet of a key generation as the reader offers it.
func (r *reading) packet(number uint32, generation uint64, frames ...byte) quic.OfferedPacket {
	b := append(make([]byte, 0, 300), 0x43|byte(generation&1)<<2, 8, 7, 6, 5)
	b = r.sealer.Seal(append(binary.BigEndian.AppendUint32(b, number), frames...), 9, uint64(number), generation)
	r.sealer.Protect()
	return quic.OfferedPacket{
		Data: b, Header: 5, Remote: &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4433}, ECN: 2,
		Received: r.clock.Wall(),
	}
}

// take offers a packet with frames.
func (r *reading) take(number uint32, frames ...byte) bool {
	return r.s.Take(r.packet(number, 0, frames...))
}

// elsewhere returns the report to quic-go, without the parts that it does not own.
func (w *world) elsewhere() (*quic.ReceivedElsewhere, error) {
	r, err := w.s.ReceivedElsewhere()
	if r != nil {
		r = &quic.ReceivedElsewhere{Packets: append([]quic.AckRange{}, r.Packets...), ECT0: r.ECT0, ECT1: r.ECT1,
			ECNCE: r.ECNCE, Last: r.Last, RTT: r.RTT, AckDelay: r.AckDelay}
	}
	return r, err
}

// TestReader has ACKs processed on the socket's reader, with each cipher and without a forwarder.
func TestReader(t *testing.T) {
	for _, suite := range []uint16{
		tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256,
	} {
		t.Run(tls.CipherSuiteName(suite), func(t *testing.T) {
			r, sent := newReading(t, func(c *worldConfig) { c.suite = suite })
			r.clock.advance(30 * ms)
			received := r.clock.Wall()
			p := r.packet(70, 0, append(make([]byte, 3), ackFrame(sent, sent)...)...)
			p.ECN = 3
			r.clock.advance(5 * ms)
			require.True(t, r.s.Take(p))
			require.True(t, r.take(72, append(ackFrame(sent, sent), 0, 0)...))
			require.EqualValues(t, 2, r.s.Stats().ReadAcks)
			require.EqualValues(t, 2, r.s.Stats().Acks)
			require.Zero(t, r.s.Stats().InFlight)
			require.Equal(t, 30*ms, r.s.Stats().SRTT, "from when the packet was received")
			e, err := r.elsewhere()
			require.NoError(t, err)
			require.Equal(t, &quic.ReceivedElsewhere{
				Packets: []quic.AckRange{{Smallest: 70, Largest: 70}, {Smallest: 72, Largest: 72}}, ECT0: 1, ECNCE: 1,
				Last: received.Add(5 * ms), RTT: 30 * ms, AckDelay: time.Millisecond,
			}, e)
		})
	}
}

// TestReaderLeavesToQUIC has all packets that quic-go has to open. The others change nothing.
func TestReaderLeavesToQUIC(t *testing.T) {
	ping := byte(packet.FramePing)
	for name, test := range map[string]func(r *reading, ack []byte) quic.OfferedPacket{
		"another frame after the ACK": func(r *reading, ack []byte) quic.OfferedPacket {
			return r.packet(7, 0, append(ack, ping)...)
		},
		"another frame before the ACK": func(r *reading, ack []byte) quic.OfferedPacket {
			return r.packet(7, 0, append([]byte{ping}, ack...)...)
		},
		"two ACKs": func(r *reading, ack []byte) quic.OfferedPacket {
			return r.packet(7, 0, append(ack, ack...)...)
		},
		"PADDING alone": func(r *reading, _ []byte) quic.OfferedPacket {
			return r.packet(7, 0, make([]byte, 20)...)
		},
		"a malformed ACK": func(r *reading, _ []byte) quic.OfferedPacket {
			return r.packet(7, 0, ackFrame(-1, 5)...)
		},
		"an ACK of a packet to come": func(r *reading, _ []byte) quic.OfferedPacket {
			return r.packet(7, 0, ackFrame(0, r.s.PeekPacketNumber())...)
		},
		"an unknown address": func(r *reading, ack []byte) quic.OfferedPacket {
			p := r.packet(7, 0, ack...)
			p.Remote = &net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 4433}
			return p
		},
		"an unknown port": func(r *reading, ack []byte) quic.OfferedPacket {
			p := r.packet(7, 0, ack...)
			p.Remote = &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4434}
			return p
		},
		"a forged packet": func(r *reading, ack []byte) quic.OfferedPacket {
			p := r.packet(7, 0, ack...)
			p.Data[len(p.Data)-1] ^= 1
			return p
		},
		"quic-go's packets in flight": func(r *reading, ack []byte) quic.OfferedPacket {
			r.s.OwnInFlight(true)
			return r.packet(7, 0, ack...)
		},
		"a key update that is due": func(r *reading, ack []byte) quic.OfferedPacket {
			r.s.keys.due.Store(true)
			r.s.shard.enqueue(r.s.Sender)
			r.run()
			return r.packet(7, 0, ack...)
		},
		"the end": func(r *reading, ack []byte) quic.OfferedPacket {
			p := r.packet(7, 0, ack...)
			r.s.Closed(nil)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, sent := newReading(t)
			p := test(r, ackFrame(sent, sent))
			require.False(t, r.s.Take(p))
			require.Zero(t, r.s.Stats().ReadAcks)
			require.Zero(t, r.s.Stats().Acks)
			e, err := r.s.ReceivedElsewhere()
			require.NoError(t, err)
			require.Nil(t, e)
		})
	}
}

// A repetition of a packet goes to quic-go, which knows the packet by then, and drops it. ECN marks count once.
func TestReaderAndReplays(t *testing.T) {
	r, sent := newReading(t)
	ack := ackFrame(sent, sent)
	r.s.Received(60, 0, r.clock.Wall())
	require.False(t, r.take(60, ack...), "quic-go has had it")
	require.False(t, r.take(59, ack...), "quic-go may have had it")
	require.True(t, r.take(63, ack...))
	require.False(t, r.take(63, ack...))
	require.True(t, r.take(61, ack...), "a late packet")
	require.False(t, r.take(61, ack...))
	e, err := r.elsewhere()
	require.NoError(t, err)
	require.Equal(t, []quic.AckRange{{Smallest: 61, Largest: 61}, {Smallest: 63, Largest: 63}}, e.Packets)
	require.EqualValues(t, 2, e.ECT0)
	for number := uint32(61); number <= 63; number++ {
		require.False(t, r.take(number, ack...), "quic-go was told of 63")
	}
	require.True(t, r.take(64, ack...))
	require.EqualValues(t, 3, r.s.Stats().ReadAcks)
}

// What is kept for quic-go is bounded: then a packet goes to quic-go, which is told of the others.
func TestReaderIsBounded(t *testing.T) {
	r, sent := newReading(t)
	ack := ackFrame(sent, sent)
	for n := range uint32(maxReadSpans) {
		require.True(t, r.take(2*n, ack...))
	}
	require.False(t, r.take(2*maxReadSpans, ack...))
	e, err := r.elsewhere()
	require.NoError(t, err)
	require.Len(t, e.Packets, maxReadSpans)
	require.True(t, r.take(2*maxReadSpans, ack...))
}

// After a key update, the first packet of the new generation is quic-go's.
func TestReaderAndKeyUpdates(t *testing.T) {
	r, sent := newReading(t)
	ack := ackFrame(sent, sent)
	take := func(number uint32, generation uint64) bool { return r.s.Take(r.packet(number, generation, ack...)) }
	for generation := uint64(1); generation < 5; generation++ {
		number := uint32(10 * generation)
		r.install(generation)
		require.True(t, take(number, generation-1))
		require.False(t, take(number+1, generation), "quic-go updates the keys by it")
		r.s.Keys(generation, r.peer.suite, packet.Version1, testSecret, testSecret)
		require.False(t, take(number+2, generation-1))
		require.False(t, take(number+3, generation))
		r.s.Received(int64(number+2), int(generation-1)&1, r.clock.Wall())
		require.False(t, take(number+4, generation), "quic-go has seen an old packet only")
		r.s.Received(int64(number+4), int(generation)&1, r.clock.Wall())
		require.True(t, take(number+5, generation))
		require.False(t, take(number+6, generation-1), "quic-go has the old keys, too")
	}
}

// ACKs are taken on the path that quic-go has validated.
func TestReaderAndPaths(t *testing.T) {
	r, _ := newReading(t)
	sent := func() int64 {
		r.stream(r.subscribe(), newTestLog(0, 10))
		return r.run()[0].number
	}
	there := func(number uint32) quic.OfferedPacket {
		n := sent()
		p := r.packet(number, 0, ackFrame(n, n)...)
		p.Remote = &net.UDPAddr{IP: net.ParseIP("2001:db8::1"), Port: 9}
		return p
	}
	require.False(t, r.s.Take(there(5)))
	r.path("[2001:db8::1]:9", testMTU)
	require.True(t, r.s.Take(there(6)))
	n := sent()
	require.False(t, r.take(7, ackFrame(n, n)...), "the old path")
}

// An ACK that was read keeps its packet from being considered lost. Packets that it shows to be lost are sent again.
func TestReaderComesBeforeAlarms(t *testing.T) {
	r, first := newReading(t)
	r.clock.advance(10 * ms)
	require.True(t, r.take(70, ackFrame(first, first)...))
	r.clock.t = min(r.shard.alarms.next(), r.clock.t.Add(time.Minute))
	require.Empty(t, r.run(), "no probe")
	require.Zero(t, r.s.Stats().PTOs)

	var sent []*wirePacket
	for range 5 {
		r.stream(r.subscribe(), newTestLog(0, 10))
		sent = append(sent, r.run()...)
	}
	lost := sent[0]
	require.True(t, r.take(71, ackFrame(sent[1].number, sent[4].number)...))
	again := r.run()
	require.Len(t, again, 1)
	require.Equal(t, lost.data, again[0].data)
	require.Equal(t, lost.id, again[0].id)
	require.EqualValues(t, 1, r.s.Stats().LostPackets)
	require.Zero(t, r.s.Stats().PTOs)
}

// A peer that acknowledges a number that was skipped is turned out.
func TestReaderOfOptimisticAcks(t *testing.T) {
	r, _ := newReading(t)
	skipped := r.s.PeekPacketNumber()
	r.s.ledger.skipAt = uint64(skipped)
	r.stream(r.subscribe(), newTestLog(0, 10))
	r.run()
	require.False(t, r.take(70, ackFrame(skipped, skipped+1)...), "quic-go opens it, and hears of the error")
	_, err := r.s.ReceivedElsewhere()
	var broken *quic.TransportError
	require.ErrorAs(t, err, &broken)
	require.Equal(t, quic.ProtocolViolation, broken.ErrorCode)
}
