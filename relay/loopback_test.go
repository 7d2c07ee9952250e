package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"
	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// network is a relay on a UDP port of the loopback interface, or of a network in virtual time, with its media sender.
type network struct {
	*sim.Network
	t     *testing.T
	relay *Relay
	addr  net.Addr
	hash  []byte
}

func newNetwork(t *testing.T) *network { return networkOn(t, nil) }

// virtually runs a test with a relay in virtual time. Packets take a millisecond.
func virtually(t *testing.T, f func(*testing.T, *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		on := sim.New(1, func(netip.Addr, netip.Addr) sim.Link { return sim.Link{Delay: time.Millisecond} })
		t.Cleanup(func() {
			time.Sleep(time.Minute) // for what sessions have left
			on.Close()
		})
		f(t, networkOn(t, on))
	})
}

var anyPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)

func networkOn(t *testing.T, on *sim.Network) *network {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	cert, hash, err := transport.DevCertificate()
	require.NoError(t, err)
	r, err := New(Config{Authorizer: AllowAll{}, Logger: quiet, Grace: 200 * time.Millisecond,
		MatchRate: 100, // so little that an attack exceeds it
	})
	require.NoError(t, err)
	var once sync.Once
	var loop *media.Loop
	var loopErr error
	cfg := transport.ListenConfig{
		Certificate: &cert, Protocols: moqt.ALPNs(), Logger: quiet,
		Limits: transport.Limits{IdleTimeout: time.Hour}, // longer than any wait
		NewHooks: func(pc net.PacketConn, _ int) quic.Hooks {
			once.Do(func() { loop, loopErr = media.NewLoop(media.LoopConfig{Logger: quiet}, pc) })
			return loop.NewSender(media.SenderConfig{}).Hooks()
		},
	}
	if on != nil {
		cfg.Sockets = func(*net.UDPAddr) ([]transport.Socket, error) {
			c, err := on.Listen(anyPort)
			return []transport.Socket{{Conn: c}}, err
		}
	}
	l, err := transport.Listen("127.0.0.1:0", cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	running.Go(func() {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return
			}
			running.Go(func() { _ = r.Serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		r.tasks.Wait()
		require.NoError(t, l.Close())
		require.NoError(t, loopErr)
		if loop != nil {
			require.NoError(t, loop.Close())
		}
	})
	return &network{on, t, r, l.Addr(), hash[:]}
}

// connect opens a session over raw QUIC or WebTransport.
func (n *network) connect(scheme string, h session.Handler) *session.Session {
	s, _ := n.dial(scheme, h)
	return s
}

// limit has WebTransport sessions announce limits.
func limit(streams, data int64) func(*transport.ClientConfig) {
	return func(c *transport.ClientConfig) {
		c.SessionLimits = webtransport.Config{MaxIncomingUniStreams: streams, MaxIncomingData: data}
	}
}

// dial is connect, but also returns the connection below the session.
func (n *network) dial(scheme string, h session.Handler, options ...func(*transport.ClientConfig)) (
	*session.Session, transport.Conn,
) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := transport.ClientConfig{Protocols: moqt.ALPNs(), CertificateSHA256: n.hash}
	if n.Network != nil {
		client.ListenUDP = func(string, *net.UDPAddr) (transport.UDPConn, error) { return n.Listen(anyPort) }
	}
	for _, option := range options {
		option(&client)
	}
	conn, err := transport.Dial(ctx, fmt.Sprintf("%s://%s/", scheme, n.addr), client)
	require.NoError(n.t, err)
	cfg := session.Config{Handler: h, Logger: slog.New(slog.DiscardHandler)}
	if scheme == "moqt" {
		cfg.Authority, cfg.Path = n.addr.String(), "/"
	}
	s, err := session.New(conn, cfg)
	require.NoError(n.t, err)
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(context.Background()) })
	n.t.Cleanup(func() {
		s.Close(moqt.SessionNoError, "")
		running.Wait()
	})
	return s, conn
}

// publisher connects a peer that announces the namespace of the tests, and accepts a subscription.
func (n *network) publisher(scheme string) (*session.Session, <-chan *session.Publication) {
	pubs := make(chan *session.Publication, 1)
	s := n.connect(scheme, &clientHandler{subscribe: func(p *session.Publication) {
		if p.Accept(moqt.Parameters{}, nil) == nil {
			pubs <- p
		}
	}})
	ns, err := s.PublishNamespace(n.t.Context(), moqt.PublishNamespace{Namespace: moqt.Namespace{"live"}})
	require.NoError(n.t, err)
	require.NoError(n.t, ns.Wait(n.t.Context()))
	return s, pubs
}

// watch subscribes.
func (n *network) watch(s *session.Session) (*session.Subscription, *frames) {
	got := newFrames()
	sub, err := s.Subscribe(n.t.Context(), moqt.Subscribe{Track: video}, got)
	require.NoError(n.t, err)
	_, err = sub.Wait(n.t.Context())
	require.NoError(n.t, err)
	return sub, got
}

// frames collects the objects of a subscription with their payloads.
type frames struct {
	mu        sync.Mutex
	got       map[moqt.Location]string // of subgroups
	datagrams int
	more      chan struct{}
}

func newFrames() *frames {
	return &frames{got: make(map[moqt.Location]string), more: make(chan struct{}, 1)}
}

func (f *frames) HandleSubgroup(g *session.Subgroup) {
	b, _ := io.ReadAll(g) // what has come before a reset counts
	p := moqt.NewSubgroupParser(moqt.DataLayout1, g.Header, 0)
	for rest := b; ; {
		o, n, err := p.Next(rest)
		if err != nil || o.End > int64(len(b)) {
			return
		}
		rest = rest[n:]
		f.add(moqt.Location{Group: g.Header.GroupID, Object: o.ObjectID}, string(b[o.PayloadStart:o.End]))
	}
}

func (f *frames) HandleDatagram(*moqt.ObjectDatagram) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.datagrams++
}

func (f *frames) add(at moqt.Location, body string) {
	f.mu.Lock()
	f.got[at] = body
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

func (f *frames) await(t *testing.T, want map[moqt.Location]string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		f.mu.Lock()
		n := len(f.got)
		f.mu.Unlock()
		if n >= len(want) {
			break
		}
		select {
		case <-f.more:
		case <-deadline:
			require.Fail(t, "objects are missing", "%d of %d came", n, len(want))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, want, f.got)
}

func frame(g, o uint64) string {
	b := make([]byte, 100+(g*7919+o*104729)%20_000)
	for i := range b {
		b[i] = byte(uint64(i)*o + g)
	}
	return string(b)
}

// publishFrames sends ten groups of two subgroups, and a datagram in each. It returns the objects of the subgroups.
func publishFrames(t *testing.T, p *session.Publication) map[moqt.Location]string {
	want := make(map[moqt.Location]string)
	for g := range uint64(10) {
		for sub := range uint64(2) {
			h := moqt.SubgroupHeader{GroupID: g, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: sub,
				FirstObject: true}
			str, err := p.OpenSubgroup(t.Context(), h)
			require.NoError(t, err)
			enc := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
			for o := sub; o < 20; o += 2 {
				body := frame(g, o)
				b, err := enc.AppendObject(nil, moqt.ObjectHeader{ObjectID: o, PayloadLength: uint64(len(body))})
				require.NoError(t, err)
				_, err = str.Write(append(b, body...))
				require.NoError(t, err)
				want[moqt.Location{Group: g, Object: o}] = body
			}
			require.NoError(t, str.Close())
		}
		require.NoError(t, p.SendDatagram(moqt.ObjectDatagram{Location: moqt.Location{Group: g, Object: 20},
			Payload: []byte("datagram")}))
	}
	return want
}

// checkFetch fetches everything again, with at most that many datagrams.
func checkFetch(t *testing.T, s *session.Session, want map[moqt.Location]string, datagrams int) {
	f, err := s.Fetch(t.Context(), standalone(at(0, 0), at(9, 0)))
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
	stream, err := f.Stream(t.Context())
	require.NoError(t, err)
	b, err := io.ReadAll(stream)
	require.NoError(t, err)
	p := moqt.NewFetchParser(s.Version(), moqt.Ascending, 0)
	got := make(map[moqt.Location]string)
	for rest := b; ; {
		o, n, err := p.Next(rest)
		if rest = rest[n:]; errors.Is(err, moqt.ErrIncomplete) {
			break
		}
		require.NoError(t, err)
		if o.Kind == moqt.FetchKindObject {
			got[o.Location] = string(b[o.PayloadStart:o.End])
		}
	}
	for l, body := range want {
		require.Equal(t, body, got[l], l)
	}
	require.LessOrEqual(t, len(got), len(want)+datagrams)
}
