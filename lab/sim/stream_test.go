package sim

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// connected returns both ends of a TCP connection.
func (p *pair) connected(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := p.ListenTCP(netip.AddrPortFrom(Host(2), 554))
	require.NoError(t, err)
	a, err = p.DialTCP(t.Context(), Host(1), l.at)
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	return a, b
}

// TestStream sends bytes over a link that loses packets, and overtakes none. A reader that stops stalls the writer.
func TestStream(t *testing.T) {
	onPair(t, func(t *testing.T, p *pair) {
		p.link = Link{Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.1, Rate: 1 << 20}
		a, b := p.connected(t)
		sent := bytes.Repeat([]byte("0123456789a"), 20_000)
		require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Minute)))
		n, err := a.Write(sent)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, window, n, "nobody reads")
		require.NoError(t, a.SetWriteDeadline(time.Time{}))
		go func() {
			_, _ = a.Write(sent[n:]) // the reader sees what comes
			_ = a.Close()
		}()
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got))
	})
}

// TestStreamWritesWhole has a goroutine write when there is room again, but another one has not finished. The bytes of
// each call stay together, as with a socket.
func TestStreamWritesWhole(t *testing.T) {
	onPair(t, func(t *testing.T, p *pair) {
		a, b := p.connected(t)
		var all sync.WaitGroup
		all.Go(func() { _, _ = a.Write(bytes.Repeat([]byte("a"), window+1)) })
		synctest.Wait()
		p.mu.Lock()
		a.(*Stream).unread-- // the first writer has not seen it yet
		p.mu.Unlock()
		all.Go(func() { _, _ = a.Write([]byte("b")) })
		go func() {
			all.Wait()
			_ = a.Close()
		}()
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, "ab", string(slices.Compact(got)))
	})
}

// TestStreamEndsOnce ends a connection in one direction. Then a report does not reset it.
func TestStreamEndsOnce(t *testing.T) {
	onPair(t, func(t *testing.T, p *pair) {
		p.link = Link{Rate: 1 << 10}
		a, b := p.connected(t)
		_, err := a.Write(make([]byte, 3000))
		require.NoError(t, err)
		require.NoError(t, a.(*Stream).CloseWrite())
		_, err = a.Write([]byte("more"))
		require.ErrorIs(t, err, syscall.EPIPE)
		_, err = b.Write([]byte("report"))
		require.NoError(t, err)
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Len(t, got, 3000)
		require.NoError(t, b.Close())
		got, err = io.ReadAll(a)
		require.NoError(t, err)
		require.Equal(t, "report", string(got))
		require.NoError(t, a.Close())
	})
}

// TestStreamEnds resets connections of who reads no more, and of a port that is not there, and gives up a dead host.
func TestStreamEnds(t *testing.T) {
	onPair(t, func(t *testing.T, p *pair) {
		p.link.Delay = time.Millisecond
		a, b := p.connected(t)
		_, err := a.Write([]byte("unread"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, b.Close())
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = p.DialTCP(t.Context(), Host(1), netip.AddrPortFrom(Host(2), 80))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		p.Kill(Host(2))
		_, err = p.DialTCP(t.Context(), Host(1), netip.AddrPortFrom(Host(2), 554))
		require.ErrorIs(t, err, syscall.ETIMEDOUT)
	})
}
