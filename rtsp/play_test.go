package rtsp

import (
	"testing"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var protocols = map[string]gortsplib.Protocol{"udp": gortsplib.ProtocolUDP, "tcp": gortsplib.ProtocolTCP}

// TestLateJoin plays from the last key frame on: a player gets each packet once, whenever it comes, and with either
// transport of the publisher.
func TestLateJoin(t *testing.T) {
	t.Parallel()
	for from, published := range protocols {
		for to, played := range protocols {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				s := newServer(t)
				pub := publishTo(t, s, "/live/cam", published)
				pub.frames(15)
				pub.received(s, 30)
				late := play(t, s, "/live/cam", played)
				late.expects(11, 15)
				pub.frames(10)
				late.expects(11, 25)
			})
		}
	}
}

// TestPlayersDiffer checks that each player has SSRCs, sequence numbers and timestamps of its own.
func TestPlayersDiffer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pub := publishTo(t, s, "/live/cam", gortsplib.ProtocolTCP)
	a, b := play(t, s, "/live/cam", gortsplib.ProtocolTCP), play(t, s, "/live/cam", gortsplib.ProtocolUDP)
	pub.frames(10)
	a.expects(1, 10)
	b.expects(1, 10)
	x, y := a.got(description.MediaTypeVideo), b.got(description.MediaTypeVideo)
	require.NotEqual(t, x[0].SSRC, y[0].SSRC)
	require.NotEqual(t, x[0].Timestamp, y[0].Timestamp)
	for i := range x {
		require.Equal(t, 3600*uint32(i), x[i].Timestamp-x[0].Timestamp)
		require.Equal(t, x[i].Timestamp-x[0].Timestamp, y[i].Timestamp-y[0].Timestamp)
		require.Equal(t, x[i].Marker, y[i].Marker)
	}
}

// TestStatusOfSessions checks that the relay's status has the sessions, and how their media travels.
func TestStatusOfSessions(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pub := publishTo(t, s, "/live/cam", gortsplib.ProtocolTCP)
	sub := play(t, s, "/live/cam", gortsplib.ProtocolUDP)
	pub.frames(10)
	sub.expects(1, 10)
	list := s.cfg.Relay.Guests()
	require.Len(t, list, 2)
	require.True(t, list[0].Publishes)
	require.Equal(t, "tcp", list[0].Carrier)
	require.NotZero(t, list[0].Received)
	require.Equal(t, "udp", list[1].Carrier)
	require.Equal(t, list[0].Received, list[1].Sent, "each packet once")
	eventually(t, "the packets are counted", func() bool { return s.cfg.Relay.Guests()[1].Process == 20 })
}
