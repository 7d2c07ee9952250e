package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/metrictest"
	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

func TestDrain(t *testing.T) {
	onBench(t, Config{Grace: time.Minute}, func(b *bench) {
		pub, sub, stays := b.connect(), b.connect(), b.connect()
		pub.serve(&source{})
		pub.announce("live")
		sub.mustSubscribe(moqt.Parameters{})
		stays.mustSubscribe(moqt.Parameters{})
		start := time.Now()
		drained := make(chan struct{})
		go func() {
			b.relay.Drain(context.Background(), "moqt://other", 10*time.Second)
			close(drained)
		}()
		for _, c := range []*client{pub, sub, stays} {
			g := <-c.handler.goaway
			require.Equal(t, "moqt://other", g.NewSessionURI)
			require.Equal(t, uint64(10_000), g.Timeout)
		}
		late := b.connect()
		require.Equal(t, "moqt://other", (<-late.handler.goaway).NewSessionURI)
		late.Session.Close(moqt.SessionNoError, "")
		pub.Session.Close(moqt.SessionNoError, "")
		sub.Session.Close(moqt.SessionNoError, "")
		synctest.Wait()
		select {
		case <-drained:
			require.Fail(t, "a session is still there")
		default:
		}
		<-drained
		require.Equal(t, 10*time.Second, time.Since(start))
		var closed *transport.SessionError
		require.ErrorAs(t, <-stays.result, &closed)
		require.Equal(t, uint64(moqt.SessionGoawayTimeout), closed.Code)
		never, conn := transporttest.Pipe(transporttest.PipeConfig{})
		require.ErrorIs(t, b.relay.Serve(b.ctx, conn), errDraining)
		require.Error(t, never.Context().Err())
	})
}

func TestDrainIsCutShort(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		c := b.connect()
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		b.relay.Drain(ctx, "", time.Minute)
		require.NoError(t, <-c.result)
	})
}

// TestDrainWithoutSetup has a peer that has connected and does not say anything: the relay does not wait for it.
func TestDrainWithoutSetup(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		_, conn := transporttest.Pipe(transporttest.PipeConfig{})
		served := make(chan error, 1)
		go func() { served <- b.relay.Serve(b.ctx, conn) }()
		synctest.Wait()
		start := time.Now()
		b.relay.Drain(context.Background(), "", time.Minute)
		require.Equal(t, setupGrace, time.Since(start))
		require.NoError(t, <-served)
	})
}

func TestDrainWithoutSessions(t *testing.T) {
	onBench(t, Config{}, func(b *bench) { b.relay.Drain(b.ctx, "", time.Minute) })
}

func TestLimitOfSessions(t *testing.T) {
	onBench(t, Config{MaxSessions: 1}, func(b *bench) {
		b.connect()
		client, conn := transporttest.Pipe(transporttest.PipeConfig{})
		require.ErrorIs(t, b.relay.Serve(b.ctx, conn), errTooManySessions)
		require.Error(t, client.Context().Err())
	})
}

func TestTooFarBehind(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.next(nil)
		c := b.connect()
		k, s := c.mustSubscribe(moqt.Parameters{})
		src.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		require.Equal(t, "1.0", k.take())
		c.sender().subs[0].cfg.OnBehind(0, 0)
		b.done(s, moqt.DoneTooFarBehind)
		require.Equal(t, "1 reset 5", k.take())
	})
}

func TestMediaSenderIsRequired(t *testing.T) {
	r, err := New(Config{Authorizer: AllowAll{}})
	require.NoError(t, err)
	client, conn := transporttest.Pipe(transporttest.PipeConfig{})
	require.ErrorContains(t, r.Serve(t.Context(), conn), "no media sender has the connection")
	require.Error(t, client.Context().Err())
}

func TestMetrics(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src, _, _, _, _ := b.live(nil)
		c := b.connect()
		c.subscribe(moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterAbsoluteRange}})
		c.mustWatch("other")
		_, err := c.watch("other", "longer")
		b.refused(err, moqt.RequestPrefixOverlap) // by the session
		n := c.mustWatch("another")
		err = n.Update(b.ctx, moqt.Parameters{NamespacePrefix: &moqt.Namespace{"other"}})
		b.refused(err, moqt.RequestPrefixOverlap)
		value := func(name string) float64 {
			return metrictest.Sum(t, b.relay, "sluice_relay_"+name)
		}
		require.Equal(t, []float64{3, 1, 1, 1, 3, 1}, []float64{
			value("sessions"), value("tracks"), value("upstream_subscriptions"), value("downstream_subscriptions"),
			value("refused_requests_total"), value("received_datagrams_total"),
		})
		require.Greater(t, value("received_bytes_total"), 40.0)
		require.Greater(t, value("cache_bytes"), 100.0)
		require.Equal(t, 1.0, value("sent_subgroups_total"))
		_ = src
	})
}
