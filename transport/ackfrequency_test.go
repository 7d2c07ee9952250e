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

// A delay that is shorter than the announced one, or longer than any, ends the connection, and so does a frame without
// its last field.
func TestAckFrequencyErrors(t *testing.T) {
	cut := append(quicvarint.Append(nil, packet.FrameAckFrequency), 1, 1, 25)
	for _, tt := range []struct {
		frame []byte
		code  quic.TransportErrorCode
	}{
		{ackFrequencyFrame(1, 1, 0), quic.ProtocolViolation},
		{ackFrequencyFrame(1, 1, time.Millisecond-time.Microsecond), quic.ProtocolViolation},
		{ackFrequencyFrame(1, 1, 1<<14*time.Millisecond), quic.ProtocolViolation},
		{cut, quic.FrameEncodingError},
	} {
		client, server := hookedConns(t, RawQUIC)
		server.Hooks().(*testSender).send(t, tt.frame)
		<-client.Context().Done()
		<-server.Context().Done()
		s := client.Hooks().(*testSender)
		s.eventually(t, func() bool { return s.closed != nil })
		var err *quic.TransportError
		require.ErrorAs(t, s.closed, &err)
		require.Equal(t, tt.code, err.ErrorCode)
		require.EqualValues(t, packet.FrameAckFrequency, err.FrameType)
	}
}
