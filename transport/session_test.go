package transport_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/transport"
	"sluice/transport/transporttest"
)

// TestSessions runs the same checks on sessions of each kind, on one whose server lets packets gather, and on a pipe.
func TestSessions(t *testing.T) {
	limits := transport.Limits{MaxIncomingStreams: 3, MaxIncomingUniStreams: 5}
	for kind, connect := range map[string]func(*testing.T, transport.Limits) (client, server transport.Conn){
		"raw QUIC": func(t *testing.T, l transport.Limits) (client, server transport.Conn) {
			return transport.Connect(t, transport.RawQUIC, l, false)
		},
		"WebTransport": func(t *testing.T, l transport.Limits) (client, server transport.Conn) {
			return transport.Connect(t, transport.WebTransport, l, false)
		},
		"packets wait for others": func(t *testing.T, l transport.Limits) (client, server transport.Conn) {
			return transport.Connect(t, transport.RawQUIC, l, true)
		},
		"pipe": func(_ *testing.T, l transport.Limits) (client, server transport.Conn) {
			return transporttest.Pipe(transporttest.PipeConfig{
				MaxStreams: int(l.MaxIncomingStreams), MaxUniStreams: int(l.MaxIncomingUniStreams),
			})
		},
	} {
		for name, c := range map[string]struct {
			check  func(t *testing.T, from, to transport.Conn)
			limits transport.Limits
		}{
			"unidirectional streams": {check: checkUniStreams},
			"streams":                {check: checkStreams},
			"implicit opening":       {check: checkImplicitOpening},
			"reset":                  {check: checkReset},
			"stop sending":           {check: checkStopSending},
			"arrived first":          {check: checkArrivedFirst},
			"datagrams":              {check: checkDatagrams},
			"close":                  {check: checkClose},
			"contexts":               {check: checkContexts},
			"deadlines":              {check: checkDeadlines},
			"stream limits":          {checkStreamLimits, limits},
			"probe":                  {check: checkProbe},
		} {
			t.Run(kind+"/"+name+"/from client", func(t *testing.T) {
				client, server := connect(t, c.limits)
				c.check(t, client, server)
			})
			t.Run(kind+"/"+name+"/from server", func(t *testing.T) {
				client, server := connect(t, c.limits)
				c.check(t, server, client)
			})
		}
		t.Run(kind+"/flow control", func(t *testing.T) {
			client, server := connect(t, transport.Limits{})
			checkFlowControl(t, client, server)
		})
	}
}

func open(t *testing.T, c transport.Conn) transport.SendStream {
	t.Helper()
	stream, err := c.OpenUniStreamSync(t.Context())
	require.NoError(t, err)
	return stream
}

func accept(t *testing.T, c transport.Conn) transport.ReceiveStream {
	t.Helper()
	stream, err := c.AcceptUniStream(t.Context())
	require.NoError(t, err)
	return stream
}

func write(t *testing.T, w io.Writer, b string) {
	t.Helper()
	_, err := io.WriteString(w, b)
	require.NoError(t, err)
}

// begin sends bytes on a new stream, of which the other end has read one.
func begin(t *testing.T, from, to transport.Conn, b string) (transport.SendStream, transport.ReceiveStream) {
	t.Helper()
	w := open(t, from)
	write(t, w, b)
	r := accept(t, to)
	_, err := io.ReadFull(r, make([]byte, 1))
	require.NoError(t, err)
	return w, r
}

func checkUniStreams(t *testing.T, from, to transport.Conn) {
	payload := make([]byte, 1<<20)
	rand.Read(payload)
	w := open(t, from)
	go func() {
		w.Write(payload)
		w.Close()
	}()
	r := accept(t, to)
	require.Equal(t, w.ID(), r.ID())

	header := int64(len(from.StreamPrefix()))
	require.Equal(t, header, r.Offset())
	got := make([]byte, 100)
	_, err := io.ReadFull(r, got)
	require.NoError(t, err)
	require.Equal(t, header+100, r.Offset())
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, bytes.Equal(payload, append(got, rest...)))
	require.Equal(t, header+int64(len(payload)), r.Offset())

	<-w.Context().Done()
	_, err = w.Write([]byte("late"))
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
}

func checkStreams(t *testing.T, from, to transport.Conn) {
	a, err := from.OpenStream()
	require.NoError(t, err)
	write(t, a, "ping")
	require.NoError(t, a.Close())
	b, err := to.AcceptStream(t.Context())
	require.NoError(t, err)
	require.Equal(t, a.ID(), b.ID())
	require.EqualValues(t, len(from.StreamPrefix()), b.Offset())
	require.Zero(t, a.Offset(), "the response has no header")
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, "ping", string(got))

	write(t, b, "pong")
	require.NoError(t, b.Close())
	got, err = io.ReadAll(a)
	require.NoError(t, err)
	require.Equal(t, "pong", string(got))
	require.EqualValues(t, 4, a.Offset())
	<-a.Context().Done()
}

func checkImplicitOpening(t *testing.T, from, to transport.Conn) {
	if from.Kind() == transport.WebTransport {
		return // a stream belongs to no session before its header comes
	}
	first, second := open(t, from), open(t, from)
	write(t, second, "2")
	require.Equal(t, first.ID(), accept(t, to).ID())
	require.Equal(t, second.ID(), accept(t, to).ID())
}

func checkReset(t *testing.T, from, to transport.Conn) {
	for _, code := range []uint64{0, 1, 0x1d, 0x1e, 0x1f, 0x12345, 1<<32 - 1} {
		w, r := begin(t, from, to, "x")
		w.CancelWrite(code)
		_, err := r.Read(make([]byte, 1))
		require.Equal(t, &transport.StreamError{Code: code, Remote: true}, err)
		_, err = w.Write([]byte("x"))
		require.Equal(t, &transport.StreamError{Code: code}, err)
		require.Error(t, w.Close())
	}
}

func checkStopSending(t *testing.T, from, to transport.Conn) {
	w := open(t, from)
	write(t, w, "x")
	r := accept(t, to)
	r.CancelRead(7)
	<-w.Context().Done()
	_, err := w.Write([]byte("x"))
	require.Equal(t, &transport.StreamError{Code: 7, Remote: true}, err)
	_, err = r.Read(make([]byte, 1))
	require.Equal(t, &transport.StreamError{Code: 7}, err)
}

// checkArrivedFirst: arrived data is read before a reset, and before the end of the session, which comes at once for
// the end that closes it.
func checkArrivedFirst(t *testing.T, from, to transport.Conn) {
	near, reset := begin(t, from, to, "xyz")
	_, ended := begin(t, from, to, "xyz")
	_, here := begin(t, to, from, "xyz")
	near.CancelWrite(7)
	rest, err := io.ReadAll(reset)
	require.Equal(t, "yz", string(rest))
	require.Equal(t, &transport.StreamError{Code: 7, Remote: true}, err)
	require.NoError(t, from.CloseWithError(5, "bye"))
	<-to.Context().Done()
	rest, err = io.ReadAll(ended)
	require.Equal(t, "yz", string(rest))
	require.Equal(t, &transport.SessionError{Code: 5, Remote: true, Reason: "bye"}, err)
	if from.Kind() == transport.WebTransport {
		return // what has arrived here can still be read
	}
	rest, err = io.ReadAll(here)
	require.Empty(t, rest)
	require.Equal(t, &transport.SessionError{Code: 5, Reason: "bye"}, err)
}

func checkDatagrams(t *testing.T, from, to transport.Conn) {
	require.NoError(t, from.SendDatagram([]byte("hello")))
	got, err := to.ReceiveDatagram(t.Context())
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))

	require.Equal(t, transport.ErrDatagramTooLarge, from.SendDatagram(make([]byte, 1500)))
	require.NoError(t, from.SendDatagram(make([]byte, 1100)))
	got, err = to.ReceiveDatagram(t.Context())
	require.NoError(t, err)
	require.Len(t, got, 1100)
}

func checkClose(t *testing.T, from, to transport.Conn) {
	w, r := begin(t, to, from, "x")
	require.NoError(t, from.CloseWithError(0x12, "bye"))
	local := &transport.SessionError{Code: 0x12, Reason: "bye"}
	remote := &transport.SessionError{Code: 0x12, Reason: "bye", Remote: true}
	transport.RequireEnded(t, from, local)
	transport.RequireEnded(t, to, remote)
	_, err := r.Read(make([]byte, 1))
	require.Equal(t, local, err)
	_, err = w.Write([]byte("x"))
	require.Equal(t, remote, err)
	require.NoError(t, from.CloseWithError(0x13, "again"))
	require.NoError(t, to.CloseWithError(0x13, "again"))
	transport.RequireEnded(t, from, local)
}

func checkContexts(t *testing.T, from, _ transport.Conn) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := from.AcceptStream(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = from.AcceptUniStream(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = from.ReceiveDatagram(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, from.Context().Err())
}

func checkDeadlines(t *testing.T, from, to transport.Conn) {
	w, r := begin(t, from, to, "x")
	require.NoError(t, r.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := r.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, w.SetWriteDeadline(time.Now().Add(-time.Second)))
	_, err = w.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, r.SetReadDeadline(time.Time{}))
	require.NoError(t, w.Close())
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, from.Context().Err())
}

func checkStreamLimits(t *testing.T, from, to transport.Conn) {
	var streams []transport.SendStream
	for {
		w, err := from.OpenUniStream()
		if err != nil {
			require.Equal(t, transport.ErrStreamLimit, err)
			break
		}
		write(t, w, "x")
		streams = append(streams, w)
	}
	require.LessOrEqual(t, len(streams), 5)
	require.GreaterOrEqual(t, len(streams), 1) // HTTP/3 has streams of its own
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := from.OpenUniStreamSync(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	for { // one less makes room for another
		if r := accept(t, to); r.ID() == streams[0].ID() {
			require.NoError(t, streams[0].Close())
			_, err = io.ReadAll(r)
			require.NoError(t, err)
			break
		}
	}
	write(t, open(t, from), "y")

	var requests int
	for ; ; requests++ {
		str, err := from.OpenStream()
		if err != nil {
			require.Equal(t, transport.ErrStreamLimit, err)
			break
		}
		write(t, str, "x")
	}
	require.Positive(t, requests)
	require.LessOrEqual(t, requests, 3)
}

func checkProbe(t *testing.T, from, to transport.Conn) {
	for range 3 {
		require.NoError(t, from.Probe(t.Context()))
	}
	require.NoError(t, from.CloseWithError(0, ""))
	require.Error(t, from.Probe(t.Context()))
	<-to.Context().Done()
	require.Error(t, to.Probe(t.Context()))
}

func checkFlowControl(t *testing.T, from, to transport.Conn) {
	const size = 4 << 20 // more than the window of any server
	w := open(t, from)
	require.NoError(t, w.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	n, err := w.Write(make([]byte, size))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, w.SetWriteDeadline(time.Time{}))
	go func() {
		_, _ = w.Write(make([]byte, size-n))
		_ = w.Close()
	}()
	b, err := io.ReadAll(accept(t, to))
	require.NoError(t, err)
	require.Len(t, b, size)
}
