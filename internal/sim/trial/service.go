package trial

import (
	"context"
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
	drop    string // the relays' drop policy
	omitted omissions
	nodes   []Node // the relays, if they are a cluster
	bus     *bus   // of the cluster

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

// noteRelays notes what the kernels of relays have done, and how their sessions are.
func (s *service) noteRelays() {
	s.mu.Lock()
	servers := maps.Clone(s.servers)
	s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(servers)) {
		if fast := servers[n].FastPath(); fast != nil {
			counts, err := fast.Counts()
			maps.DeleteFunc(counts, func(_ string, n uint64) bool { return n == 0 })
			s.note("relay %d's kernel: %v %v", n, counts, err)
		}
		for _, p := range servers[n].Relay().Sessions() {
			s.note("relay %d's session with %s: window %d, in flight %d, SRTT %v, packets %+v, held %v, streams %v",
				n, p.Remote, p.Window, p.InFlight, p.SRTT, p.Packets, p.Held, p.Streams)
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

// start starts a relay that subscribes at others, or is a node of the cluster.
func (s *service) start(n int, upstream ...int) {
	cert, _, err := transport.DevCertificate()
	s.check(err)
	log := slog.New(logged{s.options.Log.Handler(), &s.omitted}).With("relay", n)
	cfg := server.Config{Listen: fmt.Sprintf("%v:4443", sim.Host(n)), Logger: log, NewDropPolicy: dropPolicies[s.drop]}
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
	if s.bus != nil {
		cfg.Upstream.Transport.Insecure, cfg.FastPath.Dials = true, true
	}
	r, err := server.Listen(cfg)
	s.check(err)
	if s.bus != nil {
		node := s.nodes[n-1]
		s.check(r.JoinCluster(server.ClusterConfig{
			Engine: s.bus.engine(n), Node: node.Name, Region: node.Region,
			URL:  fmt.Sprintf("moqt://%v:4443", sim.Host(n)),
			Load: func(time.Time) float64 { return node.Load },
		}))
	}
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
	if s.bus != nil {
		s.bus.kill(n)
	}
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
func (p *publisher) group(group uint64, m *Media) {
	subgroups := make(map[uint64]*subgroup)
	for object := range m.Objects {
		at := moqt.Location{Group: group, Object: object}
		if m.isDatagram(at) {
			p.service.check(p.pub.SendDatagram(moqt.ObjectDatagram{
				Location: at, EndOfGroup: m.isLast(at), Payload: m.payload(at),
			}))
		} else {
			id := m.subgroup(at)
			if subgroups[id] == nil {
				subgroups[id] = p.subgroup(group, id, m)
			}
			p.service.check(subgroups[id].send(object, m.payload(at)))
		}
		time.Sleep(m.Pause)
	}
	for _, id := range slices.Sorted(maps.Keys(subgroups)) {
		p.service.check(subgroups[id].stream.Close())
	}
}

// subgroup is a stream of a publisher.
type subgroup struct {
	stream  transport.SendStream
	encoder moqt.SubgroupEncoder
}

func (p *publisher) subgroup(group, id uint64, m *Media) *subgroup {
	last := moqt.Location{Group: group, Object: m.Objects - 1}
	h := moqt.SubgroupHeader{
		GroupID: group, SubgroupID: id, FirstObject: true, EndOfGroup: !m.isDatagram(last) && m.subgroup(last) == id,
	}
	if m.Layers {
		h.Priority = uint8(100 + id)
	}
	if id != 0 {
		h.SubgroupIDMode = moqt.SubgroupIDPresent
	}
	stream, err := p.pub.OpenSubgroup(p.service.t.Context(), h)
	p.service.check(err)
	return &subgroup{stream, moqt.NewSubgroupEncoder(p.Version().DataLayout(), h)}
}

func (s *subgroup) send(object uint64, payload []byte) error {
	b, err := s.encoder.AppendObject(nil, moqt.ObjectHeader{ObjectID: object, PayloadLength: uint64(len(payload))})
	if err != nil {
		return err
	}
	_, err = s.stream.Write(append(b, payload...))
	return err
}

// end ends the publication, so that another one goes on. The session stays until everything has arrived.
func (p *publisher) end() {
	p.service.check(p.pub.Done(moqt.DoneGoingAway, ""))
}
