package transporttest

import (
	"context"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/transport"
)

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
