package relay

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// asOrigin connects as another relay does that asks for what publishers of this one have.
func asOrigin(c *session.Config) { c.Path = OriginPath }

// TestOriginNeedsProof asks a relay as the origin that serves only those in that way that prove who they are.
func TestOriginNeedsProof(t *testing.T) {
	onBench(t, Config{OriginNeedsProof: true}, func(b *bench) {
		b.next(nil)
		proved := transporttest.PipeConfig{Verified: true}
		b.connectWith(proved, asOrigin).mustSubscribe(moqt.Parameters{})
		b.connect().mustSubscribe(moqt.Parameters{})
		for _, pipe := range []transporttest.PipeConfig{
			{}, {Kind: transport.WebTransport, Authority: "relay", Path: OriginPath + "?x"},
		} {
			here, there := transporttest.Pipe(pipe)
			cfg := session.Config{Logger: slog.New(slog.DiscardHandler)}
			if pipe.Kind == transport.RawQUIC {
				cfg.Authority, cfg.Path = "relay", OriginPath
			}
			s, err := session.New(here, cfg)
			require.NoError(t, err)
			go b.relay.Serve(b.ctx, there)
			ended, _ := errors.AsType[*transport.SessionError](s.Run(b.ctx))
			require.NotNil(t, ended)
			require.Equal(t, uint64(moqt.SessionUnauthorized), ended.Code)
			require.Contains(t, ended.Reason, "prove by a certificate")
		}
	})
}

// TestMirrorRemote tells a relay that another one has a publisher, and that it has none any more.
func TestMirrorRemote(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		bs[0].next(nil)
		found := make(chan bool, 4)
		_, err := bs[1].connect().SubscribeNamespace(bs[1].ctx, moqt.SubscribeNamespace{},
			func(ns moqt.Namespace, published bool, _ moqt.Parameters) {
				require.Equal(t, video.Namespace, ns)
				found <- published
			})
		require.NoError(t, err)
		u := bs[1].upstreamTo("moqt://relay")
		bs[1].dial(u, bs[0])
		routes := &RouteTable{}
		bs[1].relay.neighbors.SetRoutes(routes)
		sub, err := bs[1].connect().Subscribe(bs[1].ctx,
			moqt.Subscribe{Track: video, Parameters: rendezvous(time.Minute)}, &sink{})
		require.NoError(t, err)
		require.Zero(t, bs[1].atUpstream())

		*routes = RouteTable{{Upstreams: []*UpstreamRelay{u}}}
		tell := bs[1].relay.neighbors.MirrorRemote("")
		tell("one", video.Namespace, true)
		tell("other", video.Namespace, true)
		tell("one", video.Namespace, false)
		require.True(t, <-found)
		_, err = sub.Wait(bs[1].ctx)
		require.NoError(t, err)
		require.Equal(t, 1, bs[1].atUpstream(), "the subscriber that waits is served at once")
		require.Equal(t, map[*UpstreamRelay]int{u: 1}, bs[1].relay.neighbors.CountFed())
		tell("other", video.Namespace, false)
		require.False(t, <-found)
		require.Equal(t, 1, bs[1].atUpstream(), "subscriptions go on")
		sub.Cancel(moqt.ResetCancelled)
	})
}
