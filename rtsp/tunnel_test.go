package rtsp

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sluice/internal/certtest"
	"sluice/internal/limited"
	"sluice/lab/sim"
)

// TestFarewell checks that a session at the end of a stream waits for a player that does not read for a time.
func TestFarewell(t *testing.T) {
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
		require.True(t, c.bidFarewell(nil))
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Equal(t, "packetpacketpacket", string(got))
	})
}

// TestFarewellEnds checks that nobody waits without end for a player that reads nothing, or for one that leaves.
func TestFarewellEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := &rtspConn{Conn: ours}
		go func() { _, _ = c.Write([]byte("packet")) }()
		synctest.Wait()
		begin := time.Now()
		require.False(t, c.bidFarewell(t.Context().Done()))
		require.Equal(t, farewell, time.Since(begin), "in virtual time")
		left := make(chan struct{})
		close(left)
		require.True(t, c.bidFarewell(left))
		require.Equal(t, farewell, time.Since(begin), "at once")
		require.NoError(t, theirs.Close())
	})
}

// TestLastPacketsOnTheWay checks that a player on a slow link gets all packets from before the end of its stream,
// although it reports something meanwhile, and the library answers.
func TestLastPacketsOnTheWay(t *testing.T) {
	files := certtest.New(t).Issue(t)
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	require.NoError(t, err)
	for name, secure := range map[string]bool{"rtsp": false, "rtsps": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				on := sim.New(1, func(netip.Addr, netip.Addr) sim.Link { return sim.Link{Rate: 8 << 10} })
				defer on.Close()
				l, err := on.ListenTCP(netip.AddrPortFrom(sim.Host(1), 554))
				require.NoError(t, err)
				dialed, err := on.DialTCP(t.Context(), sim.Host(2), netip.AddrPortFrom(sim.Host(1), 554))
				require.NoError(t, err)
				var listener net.Listener = limited.NewListener(l, 1, 1)
				var theirs net.Conn = dialed
				if secure {
					listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{cert}})
					theirs = tls.Client(theirs, &tls.Config{InsecureSkipVerify: true})
				}
				ours, err := untunneled{listener, time.Minute}.Accept()
				require.NoError(t, err)
				c, left := ours.(*rtspConn), make(chan struct{})
				var got []byte
				go func() {
					var err error
					got, err = io.ReadAll(theirs)
					assert.NoError(t, err)
					assert.NoError(t, theirs.Close())
				}()
				sent := make([]byte, 30<<10) // less than a window
				_, err = c.Write(sent)
				require.NoError(t, err)
				go func() { // the library's reader
					defer close(left)
					for b := make([]byte, 100); ; {
						if _, err := c.Read(b); err != nil {
							return
						}
						_, err := c.Write([]byte("OK"))
						assert.NoError(t, err)
					}
				}()
				time.AfterFunc(2*lull, func() {
					_, err := theirs.Write([]byte("report"))
					assert.NoError(t, err)
				})
				require.True(t, c.bidFarewell(left))
				require.NoError(t, c.Close())
				synctest.Wait()
				require.Equal(t, sent, got)
			})
		})
	}
}
