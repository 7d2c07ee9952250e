package trial

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/server"
	"sluice/server/steer"
	"sluice/transport"
)

// foreignHost is the host of the foreign relay at which a relay subscribes to tracks of storms.
const foreignHost = 50

// storms is the namespace of these tracks. Nobody publishes there.
var storms = moqt.Namespace{"storm"}

const (
	// patience is how long somebody waits for a track of a storm.
	patience = 10 * time.Second
	// mostAsked is how often a foreign relay may be asked for the track meanwhile, by both processes of a relay that is
	// upgraded. A relay asks again after 250 ms, and each time after twice as long.
	mostAsked = 20
)

// brew has somebody at a relay wait for a track that nobody publishes.
func brew(g *generator, rng *rand.Rand) {
	if g.Cluster == nil && g.Limits == (Limits{}) {
		at := time.Duration(rng.Int64N(int64(g.length())))
		g.Mishaps = append(g.Mishaps, Mishap{At: at, What: Storm, Relay: 1 + rng.IntN(g.last())})
	}
}

// foreign is a relay of another implementation. It refuses all that a relay subscribes to.
type foreign struct {
	session.Unsupported
	url     string
	conn    *sim.Conn
	port    *transport.Listener
	serving sync.WaitGroup
	asked   atomic.Int64
	refused chan struct{} // gets something for each refusal
}

// newForeign starts the foreign relay of a relay.
func newForeign(s *service, relay int) *foreign {
	f := &foreign{url: s.url(foreignHost+relay, "moqt"), refused: make(chan struct{}, 1)}
	cert, _, err := transport.DevCertificate()
	s.check(err)
	at := netip.AddrPortFrom(sim.Host(foreignHost+relay), 4443)
	f.conn, err = s.net.Listen(at)
	s.check(err)
	f.port, err = transport.Listen(at.String(), transport.ListenConfig{
		Certificate: &cert, Protocols: moqt.ALPNs(), Logger: slog.New(slog.DiscardHandler),
		Sockets: func(*net.UDPAddr) ([]transport.Socket, error) {
			return []transport.Socket{{Conn: f.conn, ConnectionIDs: steer.IDs{}}}, nil
		},
		Inspection: s.inspection(),
	})
	s.check(err)
	s.connect(foreignHost+relay, relay, func(link *sim.Link) { link.Delay = 5 * time.Millisecond })
	f.serving.Go(f.serve)
	return f
}

// serve serves relays until the port is closed.
func (f *foreign) serve() {
	cfg := session.Config{Role: session.Server, Handler: f, Logger: slog.New(slog.DiscardHandler)}
	for {
		conn, err := f.port.Accept(context.Background())
		if err != nil {
			return
		}
		if peer, err := session.New(conn, cfg); err == nil {
			f.serving.Go(func() { _ = peer.Run(context.Background()) })
		}
	}
}

// leave ends the foreign relay.
func (f *foreign) leave() {
	_ = f.port.Close() // its sessions end
	f.serving.Wait()
}

// HandleSubscribe implements [session.Handler].
func (f *foreign) HandleSubscribe(p *session.Publication) {
	f.asked.Add(1)
	_ = p.Reject(&moqt.RequestError{Code: moqt.RequestDoesNotExist}) // fails only if the request is over
	select {
	case f.refused <- struct{}{}:
	default:
	}
}

// route has a relay subscribe at the foreign relay. It does nothing on nil.
func (f *foreign) route(c *server.UpstreamConfig) {
	if f != nil {
		route := server.UpstreamRoute{Prefix: storms, URLs: []string{f.url}}
		c.Routes, c.Transport.Insecure = append(c.Routes, route), true
	}
}

// storm has somebody at a relay wait for a track. Whenever the foreign relay has refused it, it asks that relay for the
// same at once. Neither may ask the other one without end.
func (f *foreign) storm(l *life, m Mishap) {
	waiting, err := l.join(l.host(m.Relay, greedy), m.Relay, greedy)
	if err != nil {
		return // the relay was killed
	}
	defer waiting.leave()
	back, err := l.join(foreignHost+m.Relay, m.Relay, greedy)
	if err != nil {
		return
	}
	defer back.leave()
	l.note("somebody waits at relay %d for a track that nobody publishes", m.Relay)
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	subscribe := func(c *client, p moqt.Parameters) error {
		track := moqt.FullTrackName{Namespace: storms, Name: fmt.Sprint(m.At)}
		sub, err := c.Subscribe(ctx, moqt.Subscribe{Track: track, Parameters: p}, &oracle{})
		if err == nil {
			_, err = sub.Wait(ctx)
		}
		return err
	}
	before := f.asked.Load()
	l.joining.Go(func() {
		for {
			select {
			case <-f.refused:
				_ = subscribe(back, moqt.Parameters{}) // nobody publishes the track
			case <-ctx.Done():
				return
			}
		}
	})
	_ = subscribe(waiting, moqt.Parameters{RendezvousTimeout: new(uint64(patience.Milliseconds()))})
	<-ctx.Done()
	if n := f.asked.Load() - before; n > mostAsked {
		l.mu.Lock()
		l.faults = append(l.faults, fmt.Sprintf("relay %d asked a foreign relay %d times for a track", m.Relay, n))
		l.mu.Unlock()
	}
}
