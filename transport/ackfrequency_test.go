package transport

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/stretchr/testify/require"

	"sluice/internal/packet"
)

// ackFrequencyFrame asks for a number of packets that need no ACK, and for a delay.
func ackFrequencyFrame(sequence, unacked uint64, delay time.Duration) []byte {
	return packet.AppendFrame(nil, packet.FrameAckFrequency, sequence, unacked, uint64(delay.Microseconds()), 1)
}

// immediateAck is an IMMEDIATE_ACK frame, and a PING frame: picoquic ignores the former at the end of a packet.
var immediateAck = []byte{packet.FrameImmediateAck, packet.FramePing}

// Listeners and clients announce min_ack_delay: picoquic takes ACK_FREQUENCY from such peers only.
func TestMinAckDelayIsAnnounced(t *testing.T) {
	hooked(t, func(t *testing.T, _, _ Conn, s *testSender) {
		<-s.ready
		s.mu.Lock()
		defer s.mu.Unlock()
		require.NotNil(t, s.params.MinAckDelay)
		require.Equal(t, time.Millisecond, *s.params.MinAckDelay)
	})
}

// TestAckFrequency has peers that ask for hardly any ACKs, and then for one at once. Packets of theirs that are
// received elsewhere, as the kernel does, make no difference.
func TestAckFrequency(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		hooked(t, func(t *testing.T, from, to Conn, s *testSender) {
			s.send(t, ackFrequencyFrame(1, 1<<20, 10*time.Second))
			s.send(t, ackFrequencyFrame(1, 0, time.Second)) // obsolete
			if elsewhere {
				pn := s.NextPacketNumber()
				to.Hooks().(*testSender).elsewhere.Store(&quic.ReceivedElsewhere{
					Packets: []quic.AckRange{{Smallest: pn, Largest: pn}}, Last: time.Now(),
				})
			}
			ping, now := s.send(t, []byte{packet.FramePing}), s.send(t, immediateAck)
			s.eventually(t, func() bool { return s.acked[ping] && s.acked[now] })
			require.NoError(t, from.Context().Err())
		})
	}
}

// A delay that is shorter than the announced one, or longer than any, ends the connection.
func TestAckFrequencyOutOfRange(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond - time.Microsecond, 1 << 14 * time.Millisecond} {
		client, server := hookedConns(t, RawQUIC)
		server.Hooks().(*testSender).send(t, ackFrequencyFrame(1, 1, delay))
		<-client.Context().Done()
		<-server.Context().Done()
		s := client.Hooks().(*testSender)
		s.eventually(t, func() bool { return s.closed != nil })
		var err *quic.TransportError
		require.ErrorAs(t, s.closed, &err)
		require.Equal(t, quic.ProtocolViolation, err.ErrorCode)
		require.EqualValues(t, packet.FrameAckFrequency, err.FrameType)
	}
}

// An ACK_FREQUENCY frame has four fields.
func TestAckFrequencyIsCut(t *testing.T) {
	client, server := hookedConns(t, RawQUIC)
	frame := quicvarint.Append(nil, packet.FrameAckFrequency)
	server.Hooks().(*testSender).send(t, append(frame, 1, 1, 25)) // no Reordering Threshold
	<-client.Context().Done()
	s := client.Hooks().(*testSender)
	s.eventually(t, func() bool { return s.closed != nil })
	var err *quic.TransportError
	require.ErrorAs(t, s.closed, &err)
	require.Equal(t, quic.FrameEncodingError, err.ErrorCode)
}
