package rtsp

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAwaitSent checks that a session at the end of a stream waits for a player that does not read for a time.
func TestAwaitSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := &rtspConn{Conn: ours}
		go func() { // the queue of the session
			for range 3 {
				_, _ = c.Write([]byte("packet"))
			}
		}()
		var got []byte
		go func() {
			time.Sleep(farewell - 3*lull)
			got, _ = io.ReadAll(theirs)
		}()
		c.awaitSent(nil)
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Equal(t, "packetpacketpacket", string(got))
	})
}

// TestAwaitSentEnds checks that nobody waits without end for a player that reads nothing, or for one that leaves.
func TestAwaitSentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := &rtspConn{Conn: ours}
		go func() { _, _ = c.Write([]byte("packet")) }()
		synctest.Wait()
		begin := time.Now()
		c.awaitSent(t.Context().Done())
		require.Equal(t, farewell, time.Since(begin), "in virtual time")
		left := make(chan struct{})
		close(left)
		c.awaitSent(left)
		require.Equal(t, farewell, time.Since(begin), "at once")
		require.NoError(t, theirs.Close())
	})
}
