package transporttest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/transport"
)

// TestPipeBehavesLikeQUIC runs the same checks on a pipe and on a QUIC connection.
func TestPipeBehavesLikeQUIC(t *testing.T) {
	checks := map[string]func(t *testing.T, client, server transport.Conn){
		"data and FIN":      checkData,
		"reset":             checkReset,
		"stop sending":      checkStopSending,
		"implicit opening":  checkImplicitOpening,
		"stream limit":      checkStreamLimit,
		"deadlines":         checkDeadlines,
		"flow control":      checkFlowControl,
		"datagrams":         checkDatagrams,
		"probe":             checkProbe,
		"end of a session":  checkClose,
		"close after reset": checkCloseAfterReset,
		"arrived first":     checkArrivedFirst,
	}
	for name, check := range checks {
		t.Run(name+"/pipe", func(t *testing.T) {
			client, server := Pipe(PipeConfig{MaxStreams: 2, MaxUniStreams: 2})
			check(t, client, server)
		})
		t.Run(name+"/QUIC", func(t *testing.T) {
			client, server := loopback(t)
			check(t, client, server)
		})
	}
}

// A stream ends together with its last bytes, as QUIC may report it.
func TestPipeEndsWithLastBytes(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(transport.SendStream)
		want error
	}{
		"FIN":   {func(s transport.SendStream) { _ = s.Close() }, io.EOF},
		"reset": {func(s transport.SendStream) { s.CancelWrite(7) }, &transport.StreamError{Code: 7, Remote: true}},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := Pipe(PipeConfig{})
			near := open(t, client)
			_, err := io.WriteString(near, "hello")
			require.NoError(t, err)
			tt.end(near)
			far := accept(t, server)
			n, err := far.Read(make([]byte, 3))
			require.Equal(t, 3, n)
			require.NoError(t, err)
			for _, left := range []int{2, 0} {
				n, err = far.Read(make([]byte, 3))
				require.Equal(t, left, n)
				require.Equal(t, tt.want, err)
			}
		})
	}
}

func loopback(t *testing.T) (client, server transport.Conn) {
	cert, hash, err := transport.DevCertificate()
	require.NoError(t, err)
	limits := transport.Limits{MaxIncomingStreams: 2, MaxIncomingUniStreams: 2}
	l, err := transport.Listen("127.0.0.1:0", transport.ListenConfig{
		Certificate: &cert, Protocols: []string{"moqt-18"}, Limits: limits,
	})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	url := fmt.Sprintf("moqt://127.0.0.1:%d", l.Addr().(*net.UDPAddr).Port)
	client, err = transport.Dial(t.Context(), url, transport.ClientConfig{
		Protocols: []string{"moqt-18"}, CertificateSHA256: hash[:], Limits: limits,
	})
	require.NoError(t, err)
	server, err = l.Accept(t.Context())
	require.NoError(t, err)
	return client, server
}

func open(t *testing.T, c transport.Conn) transport.SendStream {
	stream, err := c.OpenUniStreamSync(t.Context())
	require.NoError(t, err)
	return stream
}

func accept(t *testing.T, c transport.Conn) transport.ReceiveStream {
	stream, err := c.AcceptUniStream(t.Context())
	require.NoError(t, err)
	return stream
}

func checkData(t *testing.T, client, server transport.Conn) {
	near, err := client.OpenStreamSync(t.Context())
	require.NoError(t, err)
	_, err = io.WriteString(near, "hello")
	require.NoError(t, err)
	far, err := server.AcceptStream(t.Context())
	require.NoError(t, err)
	require.Equal(t, near.ID(), far.ID())
	require.Zero(t, far.Offset())
	b := make([]byte, 5)
	_, err = io.ReadFull(far, b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	require.EqualValues(t, 5, far.Offset())
	require.NoError(t, near.Close())
	<-near.Context().Done()
	_, err = near.Write([]byte("x"))
	require.Error(t, err)
	_, err = far.Read(b)
	require.ErrorIs(t, err, io.EOF)
	_, err = io.WriteString(far, "answer")
	require.NoError(t, err)
	require.NoError(t, far.Close())
	answer, err := io.ReadAll(near)
	require.NoError(t, err)
	require.Equal(t, "answer", string(answer))
}

func checkReset(t *testing.T, client, server transport.Conn) {
	near := open(t, client)
	_, err := near.Write([]byte("x"))
	require.NoError(t, err)
	far := accept(t, server)
	near.CancelWrite(7)
	_, err = near.Write([]byte("x"))
	require.Equal(t, &transport.StreamError{Code: 7}, err)
	require.Eventually(t, func() bool {
		_, err = far.Read(make([]byte, 1))
		return err != nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, &transport.StreamError{Code: 7, Remote: true}, err)
}

func checkStopSending(t *testing.T, client, server transport.Conn) {
	near := open(t, client)
	_, err := near.Write([]byte("x"))
	require.NoError(t, err)
	far := accept(t, server)
	far.CancelRead(7)
	_, err = far.Read(make([]byte, 1))
	require.Equal(t, &transport.StreamError{Code: 7}, err)
	<-near.Context().Done()
	_, err = near.Write(nil)
	require.Equal(t, &transport.StreamError{Code: 7, Remote: true}, err)
}

func checkImplicitOpening(t *testing.T, client, server transport.Conn) {
	first, second := open(t, client), open(t, client)
	_, err := second.Write([]byte("2"))
	require.NoError(t, err)
	require.Equal(t, first.ID(), accept(t, server).ID())
	require.Equal(t, second.ID(), accept(t, server).ID())
}

func checkStreamLimit(t *testing.T, client, server transport.Conn) {
	first := open(t, client)
	open(t, client)
	_, err := client.OpenUniStream()
	require.ErrorIs(t, err, transport.ErrStreamLimit)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = client.OpenUniStreamSync(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, first.Close())
	_, err = io.ReadAll(accept(t, server))
	require.NoError(t, err)
	open(t, client)
}

func checkDeadlines(t *testing.T, client, server transport.Conn) {
	near := open(t, client)
	_, err := near.Write([]byte("x"))
	require.NoError(t, err)
	far := accept(t, server)
	_, err = io.ReadFull(far, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, far.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err = far.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, far.SetReadDeadline(time.Time{}))
	require.NoError(t, near.Close())
	_, err = far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func checkFlowControl(t *testing.T, client, server transport.Conn) {
	const size = 4 << 20 // more than any window
	near := open(t, client)
	require.NoError(t, near.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	n, err := near.Write(make([]byte, size))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, near.SetWriteDeadline(time.Time{}))
	go func() {
		_, _ = near.Write(make([]byte, size-n))
		_ = near.Close()
	}()
	b, err := io.ReadAll(accept(t, server))
	require.NoError(t, err)
	require.Len(t, b, size)
}

func checkDatagrams(t *testing.T, client, server transport.Conn) {
	require.NoError(t, client.SendDatagram([]byte("hello")))
	b, err := server.ReceiveDatagram(t.Context())
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	require.ErrorIs(t, client.SendDatagram(make([]byte, 1<<16)), transport.ErrDatagramTooLarge)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = server.ReceiveDatagram(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func checkClose(t *testing.T, client, server transport.Conn) {
	near := open(t, client)
	_, err := near.Write([]byte("x"))
	require.NoError(t, err)
	far := accept(t, server)
	require.NoError(t, client.CloseWithError(5, "bye"))
	require.NoError(t, client.CloseWithError(6, "again"))
	<-client.Context().Done()
	<-server.Context().Done()
	require.Equal(t, &transport.SessionError{Code: 5, Reason: "bye"}, context.Cause(client.Context()))
	remote := &transport.SessionError{Code: 5, Remote: true, Reason: "bye"}
	require.Equal(t, remote, context.Cause(server.Context()))
	_, err = io.ReadAll(far)
	require.Equal(t, remote, err)
	_, err = server.AcceptStream(t.Context())
	require.Equal(t, remote, err)
	_, err = server.OpenUniStream()
	require.Equal(t, remote, err)
	_, err = server.ReceiveDatagram(t.Context())
	require.Equal(t, remote, err)
	_, err = near.Write([]byte("x"))
	require.Error(t, err)
	<-near.Context().Done()
}

func checkCloseAfterReset(t *testing.T, client, _ transport.Conn) {
	near := open(t, client)
	near.CancelWrite(1)
	require.Error(t, near.Close())
}

// checkArrivedFirst: arrived data is read before a reset, and before the end of the session, which comes at once for
// the end that closes it.
func checkArrivedFirst(t *testing.T, client, server transport.Conn) {
	var near []transport.SendStream
	var far []transport.ReceiveStream
	for _, ends := range [][2]transport.Conn{{client, server}, {client, server}, {server, client}} {
		s := open(t, ends[0])
		_, err := s.Write([]byte("xyz"))
		require.NoError(t, err)
		r := accept(t, ends[1])
		_, err = io.ReadFull(r, make([]byte, 1)) // the rest has arrived, too
		require.NoError(t, err)
		near, far = append(near, s), append(far, r)
	}
	near[0].CancelWrite(7)
	rest, err := io.ReadAll(far[0])
	require.Equal(t, "yz", string(rest))
	require.Equal(t, &transport.StreamError{Code: 7, Remote: true}, err)
	require.NoError(t, client.CloseWithError(5, "bye"))
	<-server.Context().Done()
	rest, err = io.ReadAll(far[1])
	require.Equal(t, "yz", string(rest))
	require.Equal(t, &transport.SessionError{Code: 5, Remote: true, Reason: "bye"}, err)
	rest, err = io.ReadAll(far[2])
	require.Empty(t, rest)
	require.Equal(t, &transport.SessionError{Code: 5, Reason: "bye"}, err)
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := Pipe(PipeConfig{StreamWindow: 10})
		server.Pause()
		near := open(t, client)
		require.NoError(t, client.SendDatagram([]byte("x")))
		require.NoError(t, near.SetWriteDeadline(time.Now().Add(time.Minute)))
		n, err := near.Write(make([]byte, 100))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 10, n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = server.AcceptUniStream(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		server.Resume()
		_, err = server.ReceiveDatagram(t.Context())
		require.NoError(t, err)
		_, err = io.ReadFull(accept(t, server), make([]byte, 10))
		require.NoError(t, err)
	})
}

func checkProbe(t *testing.T, client, server transport.Conn) {
	require.NoError(t, client.Probe(t.Context()))
	require.NoError(t, server.Probe(t.Context()))
	require.NoError(t, client.CloseWithError(0, ""))
	require.Error(t, client.Probe(t.Context()))
	<-server.Context().Done()
	require.Error(t, server.Probe(t.Context()))
}

func TestVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := Pipe(PipeConfig{})
		client.Vanish()
		require.NoError(t, client.Probe(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, server.Probe(ctx), context.DeadlineExceeded)
		require.NoError(t, server.SendDatagram([]byte("x")))
		_, err := client.ReceiveDatagram(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
