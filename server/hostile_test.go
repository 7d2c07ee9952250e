package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/hostile"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/server/cluster"
	"sluice/server/cluster/clustertest"
	"sluice/transport"
)

// TestHostileUpstreams has upstream relays that do harm, while a publisher and a subscriber use the relay. These must
// not notice, and a subscriber to what the upstream relay has keeps its session.
func TestHostileUpstreams(t *testing.T) {
	for i, attack := range hostile.UpstreamAttacks {
		t.Run(attack.Name, func(t *testing.T) {
			if testing.Short() && i%3 != 2 {
				t.Skip("the race detector sees a third of the attacks, and those of package relay")
			}
			virtual(t, func(t *testing.T) { withstands(t, attack) })
		})
	}
}

// withstands carries out an attack.
func withstands(t *testing.T, attack hostile.Attack) {
	t.Helper()
	p := hostile.NewUpstream()
	url, came := serveHostile(t, p)
	cfg := Config{Logger: slog.New(slog.DiscardHandler)}
	cfg.Upstream.Routes = []UpstreamRoute{{Prefix: p.Own().Namespace, URLs: []string{url}}}
	cfg.Upstream.Transport.Insecure = true
	s := start(t, cfg)
	send, got := publish(t, s, "video"), receive(t, s, "video")
	group := uint64(0)
	media := func() {
		payload := bytes.Repeat([]byte{byte(group)}, 5000)
		send(group, payload)
		require.True(t, bytes.HasSuffix(got.await(t), payload))
		group++
	}
	media()
	bait := join(t, s, nil)
	subscribeTo(t, bait, p.Own())
	over := make(chan error, 1)
	go func() {
		<-came
		over <- attack.Run(p)
	}()
	for {
		media()
		select {
		case err := <-over:
			require.NoError(t, err)
			media()
			require.NoError(t, bait.Context().Err())
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// subscribeTo wants a track that may come later, and all namespaces below its own.
func subscribeTo(t *testing.T, s *session.Session, track moqt.FullTrackName) {
	t.Helper()
	wait := uint64(60_000)
	_, err := s.Subscribe(t.Context(), moqt.Subscribe{
		Track: track, Parameters: moqt.Parameters{RendezvousTimeout: &wait},
	}, unwanted{})
	require.NoError(t, err)
	_, err = s.SubscribeNamespace(t.Context(), moqt.SubscribeNamespace{Prefix: track.Namespace},
		func(moqt.Namespace, bool, moqt.Parameters) {})
	require.NoError(t, err)
}

// unwanted reads objects.
type unwanted struct{}

func (unwanted) HandleSubgroup(g *session.Subgroup)  { _, _ = io.Copy(io.Discard, g) }
func (unwanted) HandleDatagram(*moqt.ObjectDatagram) {}

// serveHostile lets a hostile peer be dialed, and closes came when it has a session. Later sessions refuse everything,
// and so does the first one without a peer.
func serveHostile(t *testing.T, p *hostile.Peer) (url string, came <-chan struct{}) {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	quiet := slog.New(slog.DiscardHandler)
	listen := transport.ListenConfig{Certificate: &cert, Protocols: moqt.ALPNs(), Logger: quiet}
	onNetwork(t, &listen)
	l, err := transport.Listen("127.0.0.1:0", listen)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for first := true; ; first = false {
			conn, err := l.Accept(ctx)
			if err != nil {
				return
			}
			cfg := session.Config{Role: session.Server, Handler: session.Unsupported{}, HopID: 666, Logger: quiet}
			if first = first && p != nil; first {
				cfg.Handler = p
			}
			s, err := session.New(conn, cfg)
			if err != nil {
				continue
			}
			running.Go(func() { _ = s.Run(ctx) })
			if first {
				p.Conn, p.Session = conn, s
				close(ready)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		require.NoError(t, l.Close())
	})
	return fmt.Sprint("moqt://", l.Addr()), ready
}

// TestLyingNode has a node that says that it has the publisher, in the region of a subscriber, where it is asked first.
// The subscriber gets the track from the node that has it.
func TestLyingNode(t *testing.T) {
	for name, attack := range map[string]string{
		"that does not listen": "", "that refuses": "refuse", "that sends garbage": "garbage in a stream",
	} {
		t.Run(name, func(t *testing.T) {
			onBus(t, func(t *testing.T, bus *clustertest.Bus) {
				a, c := startNode(t, bus, "west", "a"), startNode(t, bus, "east", "c")
				url := "moqt://127.0.0.1:9"
				if attack == "refuse" {
					url, _ = serveHostile(t, nil)
				} else if attack != "" {
					url = lie(t, attack)
				}
				liar, err := cluster.Join(cluster.Config{
					ID: "liar", Card: func() cluster.Card { return cluster.Card{URL: url, Region: "east"} },
					Logger: slog.New(slog.DiscardHandler),
				}, bus.Engine("liar"))
				require.NoError(t, err)
				defer func() { require.NoError(t, liar.Leave()) }()
				liar.Advertise(moqt.Namespace{"live"})
				send := publish(t, a.Server, "video")
				c.knowsRoute(t, 2)
				require.Equal(t, "liar", c.Cluster().Choices(moqt.Namespace{"live"}, "")[0].Node)
				got := receive(t, c.Server, "video")
				for g := range uint64(3) {
					payload := bytes.Repeat([]byte{byte(g)}, 5000)
					send(g, payload)
					require.True(t, bytes.HasSuffix(got.await(t), payload))
				}
			})
		})
	}
}

// lie serves a node that does harm when it is asked. It returns its URL.
func lie(t *testing.T, attack string) string {
	p := hostile.NewUpstream()
	url, came := serveHostile(t, p)
	go func() {
		select {
		case <-came:
		case <-t.Context().Done():
			return
		}
		for _, a := range hostile.UpstreamAttacks {
			if a.Name == attack {
				_ = a.Run(p) // the session ends, or the test
			}
		}
	}()
	return url
}
