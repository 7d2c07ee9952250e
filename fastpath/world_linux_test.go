package fastpath_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/fastpath"
	"sluice/fastpath/fastpathtest"
	"sluice/internal/thorough"
	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay"
	"sluice/transport"
)

// world is a relay with the fast path in a lab. Its peers are quic-go without hooks.
type world struct {
	testing.TB
	lab      *lab.Lab
	relay    *relay.Relay
	fast     *fastpath.FastPath // nil: off
	loop     *media.Loop
	listener *transport.Listener
	v6       bool
	cert     tls.Certificate
	hash     []byte
	sender   media.SenderConfig
	dialed   dialed
	serve    func(transport.Conn)
	excused  []string // reasons to decline that are the publishers'
}

type worldConfig struct {
	topology lab.Topology
	off      bool // the fast path
	room     int  // for connections in the kernel; 0: the default
	v6       bool
	budget   relay.FastPathBudget
	sender   media.SenderConfig
	rule     *fastpath.Rule // nil: the built-in one
	dialed   dialed
}

// dialed are the hosts that the relay dials. The others dial the relay. That changes QUIC's roles, but not MoQT's, in
// which the relay is always the server.
type dialed uint8

const (
	dialPublisher dialed = 1 << iota
	dialSubscribers
	dialAll = dialPublisher | dialSubscribers
)

func (d dialed) String() string {
	return [...]string{"", "publisher dialed", "subscribers dialed", "all dialed"}[d]
}

// dials reports whether the relay dials a host.
func (w *world) dials(h *lab.Host) bool {
	if h == w.lab.Publisher {
		return w.dialed&dialPublisher != 0
	}
	return w.dialed&dialSubscribers != 0
}

func newWorld(t testing.TB, cfg worldConfig) *world {
	t.Helper()
	w := &world{TB: t, lab: labtest.New(t, cfg.topology), v6: cfg.v6, dialed: cfg.dialed}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cert, hash, err := transport.DevCertificate()
	require.NoError(t, err)
	w.cert, w.hash = cert, hash[:]
	ready := make(chan struct{})
	require.NoError(t, w.lab.Relay.Do(func() error {
		var coalesce func(int) func() time.Duration
		if !cfg.off {
			coalesce = func(int) func() time.Duration {
				return func() time.Duration { return time.Millisecond }
			}
		}
		w.listener, err = transport.Listen(":4443", transport.ListenConfig{
			Certificate: &cert, Protocols: moqt.ALPNs(), Logger: log, Coalesce: coalesce,
			NewHooks: func(net.PacketConn, int) quic.Hooks {
				<-ready
				return w.newSender(false)
			},
		})
		if err != nil || cfg.off {
			return err
		}
		settings := fastpath.Settings{
			Port: 4443, ConnectionIDLen: transport.ConnectionIDLength, Rule: cfg.rule, MaxConnections: cfg.room,
		}
		w.fast, err = fastpath.New(settings, log)
		if err != nil {
			return err
		}
		devices, err := fastpath.Devices(netip.IPv6Unspecified())
		if err != nil {
			return err
		}
		return w.fast.Attach(devices...)
	}))
	loop := media.LoopConfig{Logger: log}
	if cfg.rule != nil {
		loop.Rule = cfg.rule
	}
	if w.fast != nil {
		loop.Forwarder = w.fast
		cfg.sender.MaxUDPPayloadSize = fastpath.MaxUDPPayloadSize
	}
	w.relay, err = relay.New(relay.Config{Authorizer: relay.AllowAll{}, Logger: log, FastPath: w.fast,
		FastPathPolicy: cfg.budget})
	require.NoError(t, err)
	w.sender = cfg.sender
	w.loop, err = media.NewLoop(loop, w.listener.PacketConns()...)
	require.NoError(t, err)
	close(ready)

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	w.serve = func(conn transport.Conn) { running.Go(func() { _ = w.relay.Serve(ctx, conn) }) }
	running.Go(func() { w.relay.Run(ctx) })
	running.Go(func() {
		for {
			conn, err := w.listener.Accept(ctx)
			if err != nil {
				return
			}
			w.serve(conn)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		require.NoError(t, w.listener.Close())
		require.NoError(t, w.loop.Close())
		if w.fast != nil {
			require.NoError(t, w.fast.Close())
		}
	})
	return w
}

// newSender makes the media sender of one of the relay's connections.
func (w *world) newSender(client bool) quic.Hooks {
	sender := w.sender
	if sender.Client = client; client && w.fast != nil {
		sender.MaxUDPPayloadSize += fastpath.HopGrowth
	}
	return w.loop.NewSender(sender).Hooks()
}

// connect opens a session between a host and the relay, over raw QUIC (moqt) or WebTransport (https).
func (w *world) connect(from *lab.Host, scheme string, h session.Handler, limits transport.Limits) *session.Session {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	open := w.dialRelay
	if w.dials(from) {
		open = w.dialHost
	}
	conn, err := open(ctx, from, scheme, limits)
	require.NoError(w, err)
	cfg := session.Config{Handler: h, Logger: slog.New(slog.DiscardHandler)}
	if scheme == "moqt" {
		cfg.Authority, cfg.Path = "relay", "/"
	}
	s, err := session.New(conn, cfg)
	require.NoError(w, err)
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(context.Background()) })
	w.Cleanup(func() {
		s.Close(moqt.SessionNoError, "")
		running.Wait()
	})
	return s
}

func (w *world) address(d *lab.Device) netip.Addr {
	if w.v6 {
		return d.IPv6.Addr()
	}
	return d.IPv4.Addr()
}

// dialRelay opens a connection that a host dials.
func (w *world) dialRelay(ctx context.Context, from *lab.Host, scheme string, limits transport.Limits) (
	transport.Conn, error,
) {
	addr := netip.AddrPortFrom(w.address(w.lab.Relay.Facing(from)), 4443)
	return transport.Dial(ctx, fmt.Sprintf("%s://%s/", scheme, addr), transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: w.hash, Limits: limits,
		ListenUDP: func(string, *net.UDPAddr) (transport.UDPConn, error) { return from.ListenUDP(netip.AddrPort{}) },
	})
}

// dialHost opens a connection that the relay dials, after a Retry. It returns the host's end.
func (w *world) dialHost(ctx context.Context, to *lab.Host, scheme string, limits transport.Limits) (
	transport.Conn, error,
) {
	udp, err := to.ListenUDP(netip.AddrPort{})
	require.NoError(w, err)
	l, err := transport.Listen("", transport.ListenConfig{
		Certificate: &w.cert, Protocols: moqt.ALPNs(), Logger: slog.New(slog.DiscardHandler), Limits: limits,
		MaxUnvalidated: -1,
		Sockets:        func(*net.UDPAddr) ([]transport.Socket, error) { return []transport.Socket{{Conn: udp}}, nil },
	})
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, l.Close()) })
	at := netip.AddrPortFrom(w.address(to.Devices[0]), udp.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	conn, err := w.listener.Dial(ctx, fmt.Sprintf("%s://%s/", scheme, at), transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: w.hash,
		NewHooks: func(net.PacketConn) quic.Hooks { return w.newSender(true) },
	})
	if err != nil {
		return nil, err
	}
	w.serve(conn)
	return l.Accept(ctx)
}

// publisher accepts subscriptions.
type publisher struct {
	session.Unsupported
	subscribed chan *session.Publication
}

func (p *publisher) HandleSubscribe(pub *session.Publication) {
	if pub.Accept(moqt.Parameters{}, nil) == nil {
		p.subscribed <- pub
	}
	<-pub.Context().Done()
}

func (w *world) publisher(scheme string) *publisher {
	w.Helper()
	p, _ := w.publisherOf("live", w.lab.Publisher, scheme)
	return p
}

// publisherOf publishes a namespace from a host.
func (w *world) publisherOf(namespace string, from *lab.Host, scheme string) (*publisher, *session.Session) {
	w.Helper()
	if scheme == "https" {
		w.excused = []string{fastpathtest.HeaderApart}
	}
	p := &publisher{subscribed: make(chan *session.Publication, 100)}
	s := w.connect(from, scheme, p, transport.Limits{})
	ns, err := s.PublishNamespace(w.Context(), moqt.PublishNamespace{Namespace: moqt.Namespace{namespace}})
	require.NoError(w, err)
	require.NoError(w, ns.Wait(w.Context()))
	return p, s
}

func trackName(n int) moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: fmt.Sprintf("video%d", n)}
}

// viewer keeps the objects of a track that come.
type viewer struct {
	sub *session.Subscription

	mu      sync.Mutex
	objects map[moqt.Location][]byte
	streams map[subgroup][]byte // after the header
	headers map[subgroup]moqt.SubgroupHeader
	single  map[moqt.Location]moqt.ObjectDatagram
	errs    []error
	more    chan struct{}
}

type subgroup struct{ group, id uint64 }

func newViewer() *viewer {
	return &viewer{
		objects: make(map[moqt.Location][]byte), streams: make(map[subgroup][]byte),
		headers: make(map[subgroup]moqt.SubgroupHeader), single: make(map[moqt.Location]moqt.ObjectDatagram),
		more: make(chan struct{}, 1),
	}
}

func (w *world) subscribe(s *session.Session, name moqt.FullTrackName) *viewer {
	w.Helper()
	v := newViewer()
	var err error
	v.sub, err = s.Subscribe(w.Context(), moqt.Subscribe{Track: name}, v)
	require.NoError(w, err)
	_, err = v.sub.Wait(w.Context())
	require.NoError(w, err)
	return v
}

func (v *viewer) HandleDatagram(o *moqt.ObjectDatagram) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, twice := v.single[o.Location]; twice {
		v.errs = append(v.errs, fmt.Errorf("object %v came twice in a datagram", o.Location))
	}
	v.single[o.Location] = *o
}

func (v *viewer) HandleSubgroup(g *session.Subgroup) {
	all, err := io.ReadAll(g)
	if err != nil {
		v.fail(fmt.Errorf("subgroup %d/%d: %w", g.Header.GroupID, g.Header.SubgroupID, err))
		return
	}
	parser := moqt.NewSubgroupParser(moqt.DataLayout1, g.Header, 0)
	v.mu.Lock()
	defer v.mu.Unlock()
	for rest := all; len(rest) > 0; {
		o, n, err := parser.Next(rest)
		rest = rest[n:]
		if errors.Is(err, moqt.ErrIncomplete) {
			break // behind the last payload
		}
		if err != nil {
			v.errs = append(v.errs, err)
			return
		}
		at := moqt.Location{Group: g.Header.GroupID, Object: o.ObjectID}
		if _, twice := v.objects[at]; twice {
			v.errs = append(v.errs, fmt.Errorf("object %v came twice", at))
		}
		v.objects[at] = all[o.PayloadStart:o.End]
	}
	key := subgroup{g.Header.GroupID, g.Header.SubgroupID}
	v.streams[key], v.headers[key] = all, g.Header
	select {
	case v.more <- struct{}{}:
	default:
	}
}

func (v *viewer) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.errs = append(v.errs, err)
	select {
	case v.more <- struct{}{}:
	default:
	}
}

// broadcast holds the objects that a publisher has sent on a track.
type broadcast struct {
	w       *world
	pub     *session.Publication
	objects map[moqt.Location][]byte
	streams map[subgroup][]byte
	headers map[subgroup]moqt.SubgroupHeader // as subscribers get them
	single  map[moqt.Location]moqt.ObjectDatagram
}

func (w *world) broadcast(pub *session.Publication) *broadcast {
	return &broadcast{w, pub, make(map[moqt.Location][]byte), make(map[subgroup][]byte),
		make(map[subgroup]moqt.SubgroupHeader), make(map[moqt.Location]moqt.ObjectDatagram)}
}

// payload is the same for the same object in every run.
func payload(group, object uint64, size int) []byte {
	b := make([]byte, size)
	x := group*1_000_003 + object*7919 + 1
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return b
}

// send publishes a subgroup with objects of those sizes, one every interval.
func (b *broadcast) send(h moqt.SubgroupHeader, first uint64, interval time.Duration, sizes ...int) {
	b.w.Helper()
	h.FirstObject = true
	str, err := b.pub.OpenSubgroup(b.w.Context(), h)
	require.NoError(b.w, err)
	enc := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
	var all []byte
	for i, size := range sizes {
		id := first + uint64(i)
		body := payload(h.GroupID, id, size)
		p, err := enc.AppendObject(nil, moqt.ObjectHeader{ObjectID: id, PayloadLength: uint64(size)})
		require.NoError(b.w, err)
		p = append(p, body...)
		_, err = str.Write(p)
		require.NoError(b.w, err)
		all = append(all, p...)
		b.objects[moqt.Location{Group: h.GroupID, Object: id}] = body
		time.Sleep(interval)
	}
	require.NoError(b.w, str.Close())
	key := subgroup{h.GroupID, h.SubgroupID}
	if h.SubgroupIDMode == moqt.SubgroupIDFirstObject {
		key.id = first
	}
	if h.DefaultPriority {
		h.Priority = moqt.DefaultPublisherPriority
	}
	b.streams[key], b.headers[key] = all, fastpath.Forwarded(h, key.id, h.Priority)
}

// datagram publishes an object in a datagram, perhaps twice.
func (b *broadcast) datagram(o moqt.ObjectDatagram, times int) {
	b.w.Helper()
	o.Payload = payload(o.Location.Group, o.Location.Object, len(o.Payload))
	for range times {
		require.NoError(b.w, b.pub.SendDatagram(o))
	}
	if o.DefaultPriority {
		o.DefaultPriority, o.Priority = false, moqt.DefaultPublisherPriority
	}
	b.single[o.Location] = o
}

// expect waits until a viewer has all, and compares. from is the first group that it must have.
func (w *world) expect(v *viewer, b *broadcast, from uint64) {
	w.Helper()
	deadline := time.After(time.Minute)
	for !w.complete(v, b, from) {
		select {
		case <-v.more:
		case <-deadline:
			w.report()
			require.FailNow(w, "objects are missing", "%d of %d came; %v", len(v.objects), len(b.objects), v.errs)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	require.Empty(w, v.errs)
	for at, body := range v.objects {
		require.True(w, bytes.Equal(b.objects[at], body), "object %v differs", at)
	}
	require.Equal(w, len(b.single) > 0, len(v.single) > 0)
	for at, o := range v.single { // some may be lost
		o.TrackAlias = 0
		require.Equal(w, b.single[at], o)
	}
	for key, all := range b.streams {
		if key.group >= from {
			require.True(w, bytes.Equal(all, v.streams[key]), "subgroup %v differs", key)
			got := v.headers[key]
			got.TrackAlias = 0
			require.Equal(w, b.headers[key], got)
		}
	}
}

func (w *world) complete(v *viewer, b *broadcast, from uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for at := range b.objects {
		if _, ok := v.objects[at]; !ok && at.Group >= from {
			return len(v.errs) > 0
		}
	}
	return true
}

// forwards expects the kernel to send media, and each decline to have a reason that a busy machine may cause. publish
// publishes a group that begins when all viewers have the previous one, so that a packet has its whole header. In make
// check, which has the machine alone, it also expects some counters not to be 0: of key streams that were made ahead of
// time, as they are if a processor is idle.
func (w *world) forwards(publish func(), counters ...string) {
	w.Helper()
	w.settle(publish)
	begin, excused := w.look(), 0
	for range 20 {
		before := w.look()
		publish()
		after := w.look()
		require.NoError(w, fastpathtest.Judge(before, after, w.excused...))
		if fastpathtest.Late(before, after) {
			excused++
		}
	}
	counts := w.report()
	require.Greater(w, counts["copy_sent"], begin.Reasons["copy_sent"])
	if !thorough.Set() {
		return
	}
	// Nothing else runs on the machine.
	require.Less(w, excused, 10, "user space is late in most rounds")
	for _, name := range counters {
		require.NotZero(w, counts[name], name)
	}
}

// settle publishes until the sizes of packets that the paths carry are known.
func (w *world) settle(publish func()) {
	w.Helper()
	for quiet, groups := 0, 0; quiet < 10; groups++ {
		require.Less(w, groups, 200, "packets stay too large for their paths")
		before := w.look()
		publish()
		if quiet++; w.look().Reasons["copy_too_large"] > before.Reasons["copy_too_large"] {
			quiet = 0
		}
	}
}

// look looks at the counters.
func (w *world) look() fastpathtest.Look {
	w.Helper()
	reasons, err := w.fast.Counts()
	require.NoError(w, err)
	return fastpathtest.Look{Reasons: reasons, Media: w.loop.Stats().Counters}
}

// report logs the kernel's counters.
func (w *world) report() map[string]uint64 {
	w.Helper()
	if w.fast == nil {
		return nil
	}
	counts, err := w.fast.Counts()
	require.NoError(w, err)
	for name, n := range counts {
		if n == 0 {
			delete(counts, name)
		}
	}
	s := w.loop.Stats().Counters
	w.Logf("kernel %d of %d packets, %d again, %d lost; %v", s.ForwarderPackets, s.Packets, s.Retransmissions,
		s.LostPackets, counts)
	return counts
}
