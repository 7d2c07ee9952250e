package rtspwire

import (
	"bufio"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadWhileWriting reads answers that name the session in one goroutine, and asks in two others. The race detector
// watches.
func TestReadWhileWriting(t *testing.T) {
	t.Parallel()
	const most = 100 // requests of a goroutine
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			if lines.Text() == "" { // the end of a request
				_, _ = conn.Write([]byte("RTSP/1.0 200 OK\r\nCSeq: 1\r\nSession: 7;timeout=60\r\n\r\n"))
			}
		}
	}()
	c, err := Dial(t.Context(), nil, l.Addr().String(), "live/cam", "", false)
	require.NoError(t, err)
	defer c.Close()
	sent := make(chan error)
	for range 2 {
		go func() {
			var err error
			for n := 0; n < most && err == nil; n++ {
				err = c.Send("OPTIONS", c.URL(), "")
			}
			sent <- err
		}()
	}
	for range 2 * most {
		res, _, err := c.Next()
		require.NoError(t, err)
		require.NotNil(t, res)
	}
	require.NoError(t, <-sent)
	require.NoError(t, <-sent)
	require.Equal(t, "7", c.Session())
	require.Equal(t, 2*most, c.number)
}
