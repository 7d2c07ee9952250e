package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/sim"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/server"
	"sluice/transport"
)

// The hosts of a service: relays have numbers from 1 on, and all others from firstClient on.
const firstClient = 100

var track = moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: "video"}

// kernel is what the tests ask of a simulated kernel.
type kernel interface {
	Used() int // streams that are not free
}

// service is relays on a network, and what is published and viewed there.
type service struct {
	t       testing.TB
	seed    uint64
	net     *sim.Network
	options Options

	mu      sync.Mutex
	links   map[[2]netip.Addr]sim.Link // between two hosts, in both directions
	stops   map[int]func()             // of the relays that run
	servers map[int]*server.Server     // these relays
	kernels map[int]kernel             // of these relays, without those that have none
	starts  uint64                     // of relays, so far
	clients int
	leaves  []func() // of the clients
	notes   []string // what has happened
}

func newService(t *testing.T, seed uint64, o Options) *service {
	s := &service{t: t, seed: seed, options: o, links: make(map[[2]netip.Addr]sim.Link), stops: make(map[int]func()),
		servers: make(map[int]*server.Server), kernels: make(map[int]kernel)}
	s.net = sim.New(seed, s.between)
	if r := o.Record; r != nil {
		s.net.Watch(func(p sim.Packet) { r.Packets = append(r.Packets, p) })
	}
	t.Cleanup(s.end)
	return s
}

// note adds a line to what a failure shows.
func (s *service) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// leaks returns which kernels have streams in use for longer than a minute, when no media is under way: for so long,
// connections to a relay that was killed may have some.
func (s *service) leaks() (faults []string) {
	for range 60 {
		if faults = s.used(); len(faults) == 0 {
			return nil
		}
		time.Sleep(time.Second)
	}
	return faults
}

// used returns which kernels have streams in use.
func (s *service) used() (faults []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, k := range s.kernels {
		if used := k.Used(); used > 0 {
			faults = append(faults, fmt.Sprintf("relay %d: %d streams of the kernel are not free", n, used))
		}
	}
	return faults
}

// noteKernels notes what the kernels of relays have done.
func (s *service) noteKernels() {
	s.mu.Lock()
	servers := maps.Clone(s.servers)
	s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(servers)) {
		if fast := servers[n].FastPath(); fast != nil {
			counts, err := fast.Counts()
			maps.DeleteFunc(counts, func(_ string, n uint64) bool { return n == 0 })
			s.note("relay %d's kernel: %v %v", n, counts, err)
		}
	}
}

// check ends the test if something has failed that must not.
func (s *service) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// end ends everything, in good order. What does not end then is a leak: the test fails, because its goroutines stay.
func (s *service) end() {
	s.mu.Lock()
	leaves, stops := s.leaves, s.stops
	s.mu.Unlock()
	for _, leave := range leaves {
		leave()
	}
	for _, stop := range stops {
		stop()
	}
	time.Sleep(time.Minute) // for what killed relays have left
	s.net.Close()
}

// between returns the link between two hosts.
func (s *service) between(a, b netip.Addr) sim.Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[ends(a, b)]
}

func ends(a, b netip.Addr) [2]netip.Addr {
	if b.Less(a) {
		a, b = b, a
	}
	return [2]netip.Addr{a, b}
}

// connect sets, or changes, the link between two hosts.
func (s *service) connect(a, b int, change func(*sim.Link)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[ends(sim.Host(a), sim.Host(b))]
	change(&l)
	s.links[ends(sim.Host(a), sim.Host(b))] = l
}

// start starts a relay that subscribes at others.
func (s *service) start(n int, upstream ...int) {
	cert, _, err := transport.DevCertificate()
	s.check(err)
	cfg := server.Config{Listen: fmt.Sprintf("%v:4443", sim.Host(n)), Logger: s.options.Log.With("relay", n)}
	cfg.Transport.Certificate, cfg.FastPath.Mode = &cert, server.FastPathOff
	c, err := s.net.Listen(netip.AddrPortFrom(sim.Host(n), 4443))
	s.check(err)
	cfg.Transport.Sockets = func(*net.UDPAddr) ([]transport.Socket, error) { return []transport.Socket{{Conn: c}}, nil }
	s.forward(&cfg, c, n)
	cfg.Transport.Inspection, cfg.Upstream.Transport.Inspection = s.inspection(), s.inspection()
	if len(upstream) > 0 {
		var urls []string
		for _, u := range upstream {
			urls = append(urls, s.url(u, "moqt"))
		}
		cfg.Upstream.Routes, cfg.Upstream.Transport.Insecure = []server.UpstreamRoute{{URLs: urls}}, true
	}
	r, err := server.Listen(cfg)
	s.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	stop := func() {
		cancel()
		s.check(<-served)
		s.check(r.Drain("", time.Second))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops[n], s.servers[n] = stop, r
}

// kill makes a relay vanish without a word. What is left of its process ends by itself.
func (s *service) kill(n int) {
	s.net.Kill(sim.Host(n))
	s.mu.Lock()
	stop := s.stops[n]
	delete(s.stops, n)
	delete(s.servers, n)
	delete(s.kernels, n)
	s.mu.Unlock()
	go stop()
}

func (s *service) url(relay int, scheme string) string {
	return fmt.Sprintf("%s://%v:4443/app", scheme, sim.Host(relay))
}

// client is a session with a relay.
type client struct {
	*session.Session
	host  int
	leave func()
}

// join opens a session with a relay, from a host of its own behind a link.
func (s *service) join(relay int, c Client) *client {
	s.mu.Lock()
	s.clients++
	n := firstClient + s.clients
	s.mu.Unlock()
	s.connect(n, relay, func(link *sim.Link) { *link = c.Link })
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	conn, err := transport.Dial(ctx, s.url(relay, c.Scheme), transport.ClientConfig{
		Insecure: true, Inspection: s.inspection(), Protocols: []string{c.Version.ALPN()},
		ListenUDP: func(string, *net.UDPAddr) (transport.UDPConn, error) {
			return s.net.Listen(netip.AddrPortFrom(sim.Host(n), 0))
		},
	})
	s.check(err)
	cfg := session.Config{Logger: slog.New(slog.DiscardHandler)}
	if conn.Kind() == transport.RawQUIC {
		cfg.Authority, cfg.Path = "relay", "/app"
	}
	joined := &client{host: n}
	joined.Session, err = session.New(conn, cfg)
	s.check(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = joined.Run(context.Background())
	}()
	joined.leave = sync.OnceFunc(func() {
		joined.Close(moqt.SessionNoError, "")
		<-ended
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaves = append(s.leaves, joined.leave)
	return joined
}

// publisher publishes groups with one subgroup each.
type publisher struct {
	*client
	service *service
	pub     *session.Publication
}

func (s *service) publisher(relay int, c Client) *publisher {
	p := &publisher{client: s.join(relay, c), service: s}
	var err error
	p.pub, err = p.Publish(s.t.Context(), moqt.Publish{Track: track})
	s.check(err)
	s.check(p.pub.Wait(s.t.Context()))
	return p
}

// group publishes a group, with a pause behind each object.
func (p *publisher) group(group, objects uint64, pause time.Duration) {
	h := moqt.SubgroupHeader{GroupID: group, FirstObject: true, EndOfGroup: true}
	stream, err := p.pub.OpenSubgroup(p.service.t.Context(), h)
	p.service.check(err)
	e := moqt.NewSubgroupEncoder(p.Version().DataLayout(), h)
	for object := range objects {
		content := payload(moqt.Location{Group: group, Object: object})
		b, err := e.AppendObject(nil, moqt.ObjectHeader{ObjectID: object, PayloadLength: uint64(len(content))})
		p.service.check(err)
		_, err = stream.Write(append(b, content...))
		p.service.check(err)
		time.Sleep(pause)
	}
	p.service.check(stream.Close())
}

// end ends the publication, so that another one goes on. The session stays until everything has arrived.
func (p *publisher) end() {
	p.service.check(p.pub.Done(moqt.DoneGoingAway, ""))
}

// viewer plays a track from its join on.
type viewer struct {
	*client
	*oracle
	number int
	first  uint64 // the first group that was published after the relay's answer
	left   bool   // so that groups may be missing
}

func (s *service) viewer(relay int, c Client) *viewer {
	w := &viewer{client: s.join(relay, c), oracle: newOracle(c.Version.DataLayout())}
	err := w.subscribe(s.t.Context())
	for c.Version == moqt.Draft16 && isMissing(err) { // it knows no rendezvous
		time.Sleep(100 * time.Millisecond)
		err = w.subscribe(s.t.Context())
	}
	s.check(err)
	return w
}

// subscribe subscribes to the track, and waits for the answer.
func (w *viewer) subscribe(ctx context.Context) error {
	wait := uint64(20_000)
	sub, err := w.Subscribe(ctx, moqt.Subscribe{
		Track: track, Parameters: moqt.Parameters{RendezvousTimeout: &wait},
	}, w.oracle)
	if err == nil {
		_, err = sub.Wait(ctx)
	}
	return err
}

// isMissing reports whether the relay has said that nobody publishes the track.
func isMissing(err error) bool {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	return ok && refused.Code.Effective() == moqt.RequestDoesNotExist
}
