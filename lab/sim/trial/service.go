package trial

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/server"
	"sluice/server/handover"
	"sluice/transport"
)

// The hosts of a service: relays have numbers from 1 on, and all others from firstClient on.
const firstClient = 100

// track returns the name of the track that has the media.
func (m *Media) track() moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: cmp.Or(m.name, "video")}
}

// kernel is what the tests ask of a simulated kernel.
type kernel interface {
	Used() int // streams that are not free
	// Late returns for how long between two times it had no processor for what came.
	Late(from, to time.Time) time.Duration
}

// service is relays on a network, and the publishers and viewers there.
type service struct {
	*Schedule
	t       testing.TB
	net     *sim.Network
	options Options
	loses   bool // a socket behind a kernel may have no room
	omitted omissions
	bus     *bus             // of the cluster
	foreign map[int]*foreign // by the relay that subscribes there

	// linksMu is taken while the network is locked, and mu before that.
	linksMu sync.Mutex
	links   map[[2]netip.Addr]sim.Link // between two hosts, in both directions; guarded by linksMu

	mu      sync.Mutex
	relays  map[int]*process // that run
	starts  uint64           // of relays, so far
	clients int
	leaves  []func() // of the clients
	notes   []string // what has happened
}

func newService(t *testing.T, of *Schedule, o Options) *service {
	s := &service{
		Schedule: of, t: t, options: o, links: make(map[[2]netip.Addr]sim.Link), relays: make(map[int]*process),
		foreign: make(map[int]*foreign),
	}
	s.omitted.allowed = make(map[string]bool)
	s.net = sim.New(s.Seed, s.between)
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

// noteRelays notes what the kernels of relays have done, and how their sessions are.
func (s *service) noteRelays() {
	for _, p := range s.running() {
		if fast := p.server.FastPath(); fast != nil {
			counts, err := fast.Counts()
			maps.DeleteFunc(counts, func(_ string, n uint64) bool { return n == 0 })
			s.note("relay %d's kernel: %v %v", p.relay, counts, err)
		}
		for _, o := range p.server.Relay().Sessions() {
			s.note("relay %d's session with %s: window %d, in flight %d, SRTT %v, packets %+v, held %v, streams %v",
				p.relay, o.Remote, o.Window, o.InFlight, o.SRTT, o.Packets, o.Held, o.Streams)
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
	leaves := s.leaves
	s.mu.Unlock()
	for _, leave := range leaves {
		leave()
	}
	for _, p := range s.running() {
		p.stop()
	}
	for _, f := range s.foreign {
		f.leave()
	}
	time.Sleep(time.Minute) // for what killed relays have left
	s.net.Close()
}

// between returns the link between two hosts.
func (s *service) between(a, b netip.Addr) sim.Link {
	s.linksMu.Lock()
	defer s.linksMu.Unlock()
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
	s.linksMu.Lock()
	defer s.linksMu.Unlock()
	l := s.links[ends(sim.Host(a), sim.Host(b))]
	change(&l)
	s.links[ends(sim.Host(a), sim.Host(b))] = l
}

func (s *service) url(relay int, scheme string) string {
	return fmt.Sprintf("%s://%v:4443/app", scheme, sim.Host(relay))
}

// client is a session with a relay.
type client struct {
	*session.Session
	going goaways
	sent  inFlight
	leave func()
}

// goaways tells of the GOAWAY of a relay. It implements [session.Handler].
type goaways struct {
	session.Unsupported
	asked chan string // gets where the relay has asked the client to move; "": to another session with it
}

// HandleGoaway implements [session.Handler].
func (g goaways) HandleGoaway(_ *session.Session, m moqt.Goaway) { g.asked <- m.NewSessionURI }

// isAsked waits until the relay asks the client to move, and returns where to, or until the session has ended.
func (c *client) isAsked() (uri string, asked bool) {
	select {
	case uri = <-c.going.asked:
		return uri, true
	case <-c.Context().Done():
		return "", false
	}
}

// movedBy returns the error of a request. If the relay has asked the client to move, that is the reason, also where a
// draft has no code for it.
func (c *client) movedBy(err error) error {
	if err != nil && len(c.going.asked) > 0 {
		return session.ErrGoingAway
	}
	return err
}

// host returns a new host for a client of a relay.
func (s *service) host(relay int, c Client) int {
	s.mu.Lock()
	s.clients++
	n := firstClient + s.clients
	s.mu.Unlock()
	s.connect(n, relay, func(link *sim.Link) { *link = c.Link })
	return n
}

var errNoSession = errors.New("no session")

// join opens a session with a relay, from a host.
func (s *service) join(host, relay int, c Client) (*client, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	joined, inspection := &client{going: goaways{asked: make(chan string, 1)}}, s.inspection()
	if c.Hasty {
		inspection.Trace = joined.sent.trace(inspection.Trace)
	}
	conn, err := transport.Dial(ctx, s.url(relay, c.Scheme), transport.ClientConfig{
		Insecure: true, Inspection: inspection, Protocols: []string{c.Version.ALPN()},
		Limits:        transport.Limits{MaxIncomingUniStreams: c.Streams},
		ClosingPeriod: transport.ClosingPeriod,
		ListenUDP: func(string, *net.UDPAddr) (transport.UDPConn, error) {
			return s.net.Listen(netip.AddrPortFrom(sim.Host(host), 0))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSession, err)
	}
	cfg := session.Config{
		Handler: joined.going, Logger: slog.New(slog.DiscardHandler),
		Hold: time.Minute, // else the answer of a narrow link comes too late for the media
	}
	if conn.Kind() == transport.RawQUIC {
		cfg.Authority, cfg.Path = "relay", "/app"
	}
	if c.Stays {
		cfg.Implementation = "-"
	}
	if c.Token != "" {
		cfg.Tokens = []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(c.Token)}}
	}
	joined.Session, err = session.New(conn, cfg)
	s.check(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = joined.Run(context.Background())
	}()
	joined.leave = onceFunc(func() {
		joined.Close(moqt.SessionNoError, "")
		<-ended
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaves = append(s.leaves, joined.leave)
	return joined, nil
}

// onceFunc is [sync.OnceFunc] for what takes virtual time, which stands still while somebody waits for a mutex.
func onceFunc(f func()) func() {
	var begun atomic.Bool
	done := make(chan struct{})
	return func() {
		if begun.CompareAndSwap(false, true) {
			f()
			close(done)
		}
		<-done
	}
}

// leaks has all clients leave, and returns what relays and kernels still hold after a while.
func (s *service) leaks() (faults []string) {
	s.mu.Lock()
	leaves := slices.Clone(s.leaves)
	s.mu.Unlock()
	for _, leave := range leaves {
		leave()
	}
	for begin := time.Now(); time.Since(begin) < leakTime; time.Sleep(time.Second) {
		if faults = s.held(); len(faults) == 0 {
			return nil
		}
	}
	return faults
}

// held returns what relays and kernels hold.
func (s *service) held() (faults []string) {
	for _, p := range s.running() {
		for _, f := range p.held() {
			faults = append(faults, fmt.Sprintf("relay %d: %s when all have left", p.relay, f))
		}
	}
	return faults
}

// launch opens the port of a relay that subscribes at others, beside another process that has it, if there is one.
func (s *service) launch(n int, upstream []int, from *handover.Takeover, replaced *process) *process {
	p := &process{service: s, relay: n, upstream: upstream, replaced: replaced, ended: make(chan struct{})}
	p.serving, p.retire = context.WithCancelCause(context.Background())
	p.living, p.kill = context.WithCancel(context.Background())
	var err error
	if replaced != nil {
		replaced.heir, p.number = p, from.Number()
		p.cert, err = from.Certificate()
	} else {
		var cert tls.Certificate
		cert, _, err = transport.DevCertificate()
		p.cert = &cert
	}
	s.check(err)
	p.conn, err = s.net.Share(netip.AddrPortFrom(sim.Host(n), 4443), p.isNamed)
	s.check(err)
	cfg := p.config()
	p.kernel = s.forward(&cfg, p.conn, n)
	p.server, err = server.Listen(cfg)
	s.check(err)
	p.control = handover.NewControl(handover.Config{
		Port: p, Certificate: p.cert, Links: p.server.LinkTargets, Logger: cfg.Logger,
		Replaced: func(int) { p.retire(errReplaced) },
	})
	return p
}

// start starts a relay that subscribes at others, or is a node of the cluster.
func (s *service) start(n int, upstream ...int) {
	p := s.launch(n, upstream, nil, nil)
	p.conn.Promote()
	s.mu.Lock()
	s.relays[n] = p
	s.mu.Unlock()
	p.serve()
}

// upgrade has another process take over the port of a relay, as cmd/sluice does with --replace. The two make links.
func (s *service) upgrade(m Mishap) {
	old := s.process(m.Relay)
	if old != nil && !old.serves() {
		old = old.replaced // which still has the control socket
	}
	if old == nil {
		return // the relay was killed
	}
	conn, answers := newTalk(m.Talk)
	old.control.Answer(answers)
	from, err := handover.Ask(conn)
	if err != nil {
		s.note("relay %d cannot be replaced: %v", m.Relay, err)
		return
	}
	p, begun := s.launch(m.Relay, old.upstream, from, old), time.Now()
	p.server.LinkTo(s.t.Context(), from.Links())
	time.Sleep(m.Lasts - time.Since(begun))
	if m.Crashes {
		p.crash()
	} else {
		err = from.Commit()
	}
	s.note("a process of relay %d is ready; crashes: %v, %v", m.Relay, m.Crashes, err)
	if s.check(from.Close()); m.Crashes || err != nil || s.process(m.Relay) != p {
		p.replaced = nil
		p.retire(nil)
		go p.run()
		return
	}
	if s.bus != nil {
		s.bus.replace(m.Relay)
	}
	p.serve()
}

// drain has a relay send its clients to another one, and end.
func (s *service) drain(n int, uri string) {
	if p := s.remove(n); p != nil {
		p.drainURI = uri
		p.retire(nil)
	}
}

// remove returns the newest process of a relay, which does not count as one that runs any more.
func (s *service) remove(n int) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.relays[n]
	delete(s.relays, n)
	return p
}

// kill makes a relay vanish without a word. The rest of its processes ends by itself.
func (s *service) kill(n int) {
	s.net.Kill(sim.Host(n))
	if s.bus != nil {
		s.bus.kill(n)
	}
	go s.remove(n).stop()
}

// process returns the newest process of a relay, or nil if it was killed.
func (s *service) process(n int) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.relays[n]
}

// running returns the newest processes of the relays that run.
func (s *service) running() (all []*process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.relays)) {
		all = append(all, s.relays[n])
	}
	return all
}

// inspection keeps what relays and clients encrypt, if that is wanted.
func (s *service) inspection() (i transport.Inspection) {
	r := s.options.Record
	if r == nil {
		return i
	}
	i.KeyLog = &r.Keys
	if s.options.Qlog {
		i.Trace = r.trace
	}
	return i
}

// whileAsked calls f, and again if that has failed because the relay has asked the client to move meanwhile.
func whileAsked(f func() error) (err error) {
	for err = f(); mustMove(err); err = f() {
	}
	return err
}
