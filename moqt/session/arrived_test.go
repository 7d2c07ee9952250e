package session

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// lateContext is a session whose AcceptUniStream fails before its context is done, as on a QUIC connection.
type lateContext struct {
	transport.Conn
	ctx context.Context
}

func (c lateContext) Context() context.Context { return c.ctx }

// TestEndBeforeContext: when all that has arrived is delivered, the session does not wait for more.
func TestEndBeforeContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := transporttest.Pipe(transporttest.PipeConfig{})
		ctx, end := context.WithCancelCause(context.Background())
		s, err := New(lateContext{near, ctx}, Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		run := make(chan error, 1)
		go func() { run <- s.Run(context.Background()) }()
		b, err := moqt.AppendMessage(nil, s.Version(), &moqt.Setup{})
		require.NoError(t, err)
		control, err := far.OpenUniStream()
		require.NoError(t, err)
		_, err = control.Write(b)
		require.NoError(t, err)
		<-s.Ready()
		require.NoError(t, far.CloseWithError(uint64(moqt.SessionNoError), ""))
		synctest.Wait()
		require.Empty(t, run)
		end(context.Cause(near.Context()))
		synctest.Wait()
		require.Len(t, run, 1)
		require.NoError(t, <-run)
	})
}
