package media

import (
	"io"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/track"
)

// demanding is a peer like picoquic: it takes ACK_FREQUENCY only if we have announced min_ack_delay.
type demanding struct {
	Hooks
	negotiated chan bool
}

func (d demanding) PeerParameters(p quic.PeerParameters) {
	d.negotiated <- p.MinAckDelay != nil
	d.Hooks.PeerParameters(p)
}

// TestPeersOfEachKind sends a stream to peers that announce min_ack_delay and demand that we do, that announce it only,
// and that do not know it, to which an unknown frame is an error.
func TestPeersOfEachKind(t *testing.T) {
	for _, kind := range []string{"announces and demands", "announces and tolerates", "does not announce"} {
		t.Run(kind, func(t *testing.T) {
			ctx, d := t.Context(), demanding{negotiated: make(chan bool, 1)}
			demands := kind == "announces and demands"
			if demands {
				d.Hooks = newSite(t, loopback(t), LoopConfig{}).loop.NewSender(SenderConfig{Client: true}).Hooks()
				ctx = quic.WithHooks(ctx, d)
			}
			announces := kind != "does not announce"
			c := newSite(t, loopback(t), LoopConfig{Shards: 1}).connect(ctx, false, loopback(t), &quic.Config{
				EnableAckFrequency: announces, InitialStreamReceiveWindow: 1 << 20,
			}, 4)
			if demands {
				require.True(t, <-d.negotiated, "it would close the connection")
			}
			receiveStream(t, c)
			require.Equal(t, announces, c.sender.Stats().AckRequests > 0)
		})
	}
}

// receiveStream sends a stream whose second half waits for the first, so that the window has grown, and reads it.
func receiveStream(t *testing.T, c connection) {
	t.Helper()
	log, data := track.NewLog(0, nil), testBytes(1, 400_000)
	_, err := c.sender.NewSubscription(SubscriptionConfig{}).OpenStream(StreamConfig{Log: log})
	require.NoError(t, err)
	log.Append(data[:len(data)/2])
	s, err := c.peer.AcceptUniStream(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.SetReadDeadline(time.Now().Add(time.Minute)))
	got := make([]byte, len(data)/2)
	_, err = io.ReadFull(s, got)
	require.NoError(t, err)
	log.Append(data[len(data)/2:])
	log.Finish()
	rest, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Equal(t, data, append(got, rest...))
}
