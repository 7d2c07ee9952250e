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

// TestArrivedBeforeEnd: streams that have arrived before the peer closes the session are delivered first.
func TestArrivedBeforeEnd(t *testing.T) {
	play(t, setting{}, func(p *script) {
		c := newCollector()
		p.subscribed(testTrack, 1, c)
		p.s.conn.(*transporttest.Conn).Pause() // everything waits in the transport when the session ends
		const streams = 10
		for i := range uint64(streams) {
			h := moqt.SubgroupHeader{TrackAlias: 1, GroupID: i}
			b := moqt.AppendSubgroupHeader(nil, p.s.Version(), h)
			require.NoError(t, p.uni(append(b, "object"...)).Close())
		}
		o := moqt.ObjectDatagram{TrackAlias: 1, Payload: []byte("datagram")}
		b, err := moqt.AppendDatagramHeader(nil, p.s.Version(), &o)
		require.NoError(t, err)
		require.NoError(t, p.conn.SendDatagram(append(b, o.Payload...)))
		require.NoError(t, p.conn.CloseWithError(uint64(moqt.SessionNoError), ""))
		require.NoError(t, <-p.run)
		require.Len(t, c.subgroups, streams)
		require.Len(t, c.datagrams, 1)
		for range streams {
			got := <-c.subgroups
			require.NoError(t, got.err)
			require.Equal(t, "object", string(got.body))
		}
	})
}

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
