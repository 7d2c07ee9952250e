package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/moqt/session"
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
}

// service is relays on a network, and the publishers and viewers there.
type service struct {
	t       testing.TB
	seed    uint64
	net     *sim.Network
	options Options
	drop    string // the relays' drop policy
	limits  Limits // of each relay
	early   float64
	guests  bool // somebody plays by RTSP
	loses   bool // a socket behind a kernel may have no room
	omitted omissions
	nodes   []Node           // the relays, if they are a cluster
	bus     *bus             // of the cluster
	foreign map[int]*foreign // by the relay that subscribes there

	mu      sync.Mutex
	links   map[[2]netip.Addr]sim.Link // between two hosts, in both directions
	relays  map[int]*process           // that run
	starts  uint64                     // of relays, so far
	clients int
	leaves  []func() // of the clients
	notes   []string // what has happened
}

func newService(t *testing.T, seed uint64, o Options) *service {
	s := &service{t: t, seed: seed, options: o, links: make(map[[2]netip.Addr]sim.Link), relays: make(map[int]*process),
		foreign: make(map[int]*foreign)}
	s.omitted.allowed = make(map[string]bool)
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
		Timeouts: session.Timeouts{Hold: time.Minute}, // else the answer of a narrow link comes too late for the media
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
	joined.leave = sync.OnceFunc(func() {
		joined.Close(moqt.SessionNoError, "")
		<-ended
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaves = append(s.leaves, joined.leave)
	return joined, nil
}

// whileAsked calls f, and again if that has failed because the relay has asked the client to move meanwhile.
func whileAsked(f func() error) (err error) {
	for err = f(); mustMove(err); err = f() {
	}
	return err
}
