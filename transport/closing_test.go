package transport

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClosingPeriodEnds has a client close its session. Its socket is closed as well, at once or after the period.
func TestClosingPeriodEnds(t *testing.T) {
	for name, period := range map[string]time.Duration{"none": 0, "some": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			var socket *net.UDPConn
			client, _ := newServer(t).connect(t, RawQUIC, func(c *ClientConfig) {
				c.ClosingPeriod = period
				c.ListenUDP = func(network string, local *net.UDPAddr) (_ UDPConn, err error) {
					socket, err = net.ListenUDP(network, local)
					return socket, err
				}
			})
			require.NoError(t, client.CloseWithError(0, ""))
			isClosed := func() bool { return socket.SetWriteBuffer(1<<16) != nil }
			require.Eventually(t, isClosed, time.Minute, time.Millisecond)
		})
	}
}
