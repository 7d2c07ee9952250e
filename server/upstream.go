package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/fastpath"
	"sluice/internal/unlucky"
	"sluice/media"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// UpstreamConfig says at which other relays, of any kind, the server subscribes to what no publisher of its own has.
// The zero value is none.
type UpstreamConfig struct {
	// Routes name them by namespace prefix. The longest prefix counts.
	Routes []UpstreamRoute
	// Transport is how to trust them, and what to show them. The server sets all fields that it needs of the others.
	Transport transport.ClientConfig
	// Tokens authorize the sessions with them.
	Tokens []moqt.Token
	// Announce are prefixes. The namespaces below them in which peers of this server publish are announced to each
	// upstream relay, which may then ask for their tracks. Default: none are.
	Announce []moqt.Namespace
	// GoawayHosts are the hosts that an upstream relay may name in GOAWAY, besides its own: the server connects to them
	// and shows them the Tokens. "*" is any host. Default: none.
	GoawayHosts []string
}

// mayMove reports whether a relay may send the server from one URL to another.
func (c *UpstreamConfig) mayMove(from, to string) bool {
	old, err := transport.ParseURL(from)
	next, err2 := transport.ParseURL(to)
	if err != nil || err2 != nil {
		return false
	}
	return slices.ContainsFunc(append([]string{old.Host}, c.GoawayHosts...), func(host string) bool {
		return host == "*" || strings.EqualFold(host, next.Host)
	})
}

// UpstreamRoute names the upstream relays for the namespaces with a prefix: moqt:// URLs for raw QUIC, https:// URLs
// for WebTransport, the preferred one first. The next one is asked when the one before it has no session or no
// publisher.
type UpstreamRoute struct {
	Prefix moqt.Namespace
	URLs   []string
}

func (c *UpstreamConfig) validate() error {
	for _, r := range c.Routes {
		if len(r.URLs) == 0 {
			return fmt.Errorf("field Upstream.Routes: %q: at least one URL is required", r.Prefix)
		}
		for _, url := range r.URLs {
			if _, err := transport.ParseURL(url); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	// When a session with an upstream relay has ended, or cannot be established, the server connects again, at first
	// after minReconnect, and each time after twice as long. Those times vary at random: the clients of a relay that
	// was started again should not all connect at the same moment.
	minReconnect = 100 * time.Millisecond
	maxReconnect = 10 * time.Second
	// stableAfter is how long a session lasts that has not failed at once.
	stableAfter = 5 * time.Second
	// moveTime is how long a session is kept after GOAWAY, unless that has a shorter timeout.
	moveTime = 10 * time.Second
	// The transport asks an upstream relay for a sign of life when nothing has come for keepAlive. After maxSilence it
	// is asked again, and lost if it does not answer within lastChance, or a round trip and a half if that is longer,
	// and the socket brings nothing of it within lastLook after the kernel has given the socket all packets. Its
	// subscribers wait meanwhile; a session that is given up too early costs them nothing but a new one, unless the
	// kernel has packets of it.
	keepAlive  = 250 * time.Millisecond
	maxSilence = 450 * time.Millisecond
	lastChance = 500 * time.Millisecond
	lastLook   = 50 * time.Millisecond
	// upstreamHandshake is how long an upstream relay may take to establish a session.
	upstreamHandshake = 5 * time.Second
)

// upstreamLimits are the transport's limits of a session with an upstream relay, which brings the tracks of many
// subscribers.
var upstreamLimits = transport.Limits{
	MaxIncomingStreams: 1 << 14, MaxIncomingUniStreams: 1 << 14, MaxConnWindow: 64 << 20,
	HandshakeTimeout: upstreamHandshake, KeepAlive: keepAlive,
}

// keepUpstreams dials the upstream relays of the configuration.
func (s *Server) keepUpstreams() error {
	cfg := &s.cfg.Upstream
	known := make(map[string]*relay.UpstreamRelay)
	var routes relay.RouteTable
	for _, r := range cfg.Routes {
		route := relay.Route{Prefix: r.Prefix}
		for _, url := range r.URLs {
			if known[url] == nil {
				u, err := s.KeepUpstream(context.Background(), cfg.relayAt(url), cfg.Transport)
				if err != nil {
					return err
				}
				known[url] = u
			}
			route.Upstreams = append(route.Upstreams, known[url])
		}
		routes = append(routes, route)
	}
	switch {
	case len(routes) == 0:
	case s.mesh != nil:
		s.mesh.static.Store(&routes)
		s.relay.Reroute()
	default:
		s.relay.SetRoutes(routes)
	}
	return nil
}

// relayAt returns the configuration of the upstream relay at a URL.
func (c *UpstreamConfig) relayAt(url string) relay.UpstreamRelayConfig {
	cfg := relay.UpstreamRelayConfig{URL: url, Tokens: c.Tokens, Announce: c.Announce}
	for _, r := range c.Routes {
		if slices.Contains(r.URLs, url) {
			cfg.Namespaces = append(cfg.Namespaces, r.Prefix)
		}
	}
	return cfg
}

// KeepUpstream dials an upstream relay, and keeps a session with it until the context is done or the server drains: it
// connects again when the session is lost, and follows GOAWAY to the hosts that Config.Upstream allows. Packets go
// through the server's own port, so that its media senders and its fast path serve the session. Routes of the relay say
// what to subscribe to there. Of t, Limits and NewHooks are the server's.
func (s *Server) KeepUpstream(
	ctx context.Context, cfg relay.UpstreamRelayConfig, t transport.ClientConfig,
) (*relay.UpstreamRelay, error) {
	return s.keep(ctx, cfg, t, s.cfg.Upstream.mayMove)
}

// keep is KeepUpstream. mayMove reports whether the relay may send the server from its URL to another one by GOAWAY; if
// it is nil, the server stays with the relay.
func (s *Server) keep(
	ctx context.Context, cfg relay.UpstreamRelayConfig, t transport.ClientConfig, mayMove func(from, to string) bool,
) (*relay.UpstreamRelay, error) {
	u, err := s.relay.NewUpstreamRelay(cfg)
	if err != nil {
		return nil, err
	}
	t.Protocols, t.Limits, t.NewHooks = moqt.ALPNs(), upstreamLimits, s.newDialedHooks
	t.ProbeAfter = -1 // KeepAlive is more often
	k := &keeper{
		server: s, relay: u, url: cfg.URL, mayMove: mayMove, announces: len(cfg.Announce) > 0, transport: t,
		log: s.log.With("upstream", u.Name()), payload: fastpath.MaxUDPPayloadSize,
	}
	ctx, cancel := context.WithCancel(ctx)
	s.keepers.add(k)
	s.tasks.Go(func() {
		defer s.keepers.remove(k)
		defer cancel()
		defer context.AfterFunc(s.relay.Drained(), cancel)()
		k.run(ctx)
	})
	return u, nil
}

// newDialedHooks makes the media sender of a connection that the server has dialed.
func (s *Server) newDialedHooks(socket net.PacketConn) quic.Hooks {
	return s.loop.NewSender(s.senderConfig(socket, true))
}

// keeper keeps a session with an upstream relay.
type keeper struct {
	server    *Server
	relay     *relay.UpstreamRelay
	url       string
	mayMove   func(from, to string) bool // whether a GOAWAY may name a URL; nil: it does not count
	announces bool                       // the relay is told of publishers of this server
	transport transport.ClientConfig
	log       *slog.Logger

	wait time.Duration // before the next attempt

	mu      sync.Mutex
	failure string // of the last attempt; empty if a session was established
	ready   bool   // there is a session
	payload int    // max_udp_payload_size of the relay, as far as is known
}

// UpstreamStatus describes an upstream relay.
type UpstreamStatus struct {
	URL       string `json:"url"`             // without the query
	Connected bool   `json:"connected"`       // SessionStatus.Upstream tells the session
	Error     string `json:"error,omitempty"` // why there is no session
}

func (k *keeper) status() UpstreamStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return UpstreamStatus{URL: k.relay.Name(), Connected: k.ready, Error: k.failure}
}

// set notes the state, and reports whether the reason of a failure is a new one.
func (k *keeper) set(ready bool, failure string) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed = failure != k.failure
	k.ready, k.failure = ready, failure
	return changed
}

// learnPayload notes how large the packets may be that the relay takes. The handshake has told that.
func (k *keeper) learnPayload(conn transport.Conn) {
	sender, ok := conn.Hooks().(*media.Sender)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.payload = sender.PeerMaxUDPPayloadSize()
}

// keepers are those of a server, in the order in which they began.
type keepers struct {
	mu  sync.Mutex
	all []*keeper
}

func (ks *keepers) add(k *keeper) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.all = append(ks.all, k)
}

func (ks *keepers) remove(k *keeper) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.all = slices.DeleteFunc(ks.all, func(o *keeper) bool { return o == k })
}

// maxUDPPayloadSize returns the smallest max_udp_payload_size of the relays that publishers are announced to, and
// whether there are any.
func (ks *keepers) maxUDPPayloadSize() (size int, announced bool) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	size = fastpath.MaxUDPPayloadSize
	for _, k := range ks.all {
		if k.announces {
			k.mu.Lock()
			size, announced = min(size, k.payload), true
			k.mu.Unlock()
		}
	}
	return size, announced
}

func (ks *keepers) status() (list []UpstreamStatus) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for _, k := range ks.all {
		list = append(list, k.status())
	}
	return list
}

// upstreamSession is a session that runs.
type upstreamSession struct {
	*relay.UpstreamSession
	began time.Time
	ended chan error
}

// run keeps the session until the context is done.
func (k *keeper) run(ctx context.Context) {
	url := k.url
	k.wait = minReconnect
	for !k.isOver(ctx) {
		s, err := k.connect(ctx, url)
		if err != nil {
			k.failed(ctx, err)
			url = k.url // the URI of a GOAWAY may have been wrong, or have changed
			k.pause(ctx)
			continue
		}
		url = k.serve(ctx, s, url)
	}
}

// serve waits until a session has ended or has to be replaced, and returns the URL to connect to.
func (k *keeper) serve(ctx context.Context, s *upstreamSession, url string) string {
	select {
	case err := <-s.ended:
		k.set(false, "")
		if !k.isOver(ctx) {
			k.log.Warn("the session with the upstream relay has ended; connecting again", "err", err)
		}
	case g := <-s.Goaway():
		url = k.afterGoaway(url, g.NewSessionURI)
		k.log.Info("the upstream relay is going away; moving", "to", transport.WithoutQuery(url))
		timeout := moveTime
		if g.Timeout > 0 {
			timeout = min(timeout, moqt.Milliseconds(g.Timeout))
		}
		k.server.tasks.Go(func() { s.Retire(timeout) })
	case <-ctx.Done():
		s.Close()
		return url
	}
	if time.Since(s.began) >= stableAfter {
		k.wait = minReconnect
		return url
	}
	k.pause(ctx)
	return url
}

// afterGoaway returns the URL to connect to when the relay at one URL has named another one, or "". A host that the
// operator does not know gets no token.
func (k *keeper) afterGoaway(url, named string) string {
	switch {
	case named == "", k.mayMove == nil:
		return url
	case k.mayMove(k.url, named):
		return named
	}
	k.log.Warn("the upstream relay names another host, which --upstream-goaway-host does not allow; connecting again",
		"named", transport.WithoutQuery(named))
	return k.url
}

// isOver reports whether the session is not needed any more. It is true before the relay closes the session.
func (k *keeper) isOver(ctx context.Context) bool {
	return ctx.Err() != nil || k.server.relay.Drained().Err() != nil
}

// pause waits before the next attempt to connect.
func (k *keeper) pause(ctx context.Context) {
	timer := time.NewTimer(k.wait/2 + rand.N(k.wait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	k.wait = min(2*k.wait, maxReconnect)
}

// failed notes that no session could be established. It logs a reason once, and not at each attempt.
func (k *keeper) failed(ctx context.Context, err error) {
	if k.isOver(ctx) {
		return
	}
	k.relay.SetDown()
	if k.set(false, err.Error()) {
		k.log.Warn("no session with the upstream relay; trying again and again", "err", err)
	}
}

// connect establishes a session, and begins to run it.
func (k *keeper) connect(ctx context.Context, url string) (*upstreamSession, error) {
	if unlucky.Happens() {
		return nil, errEndedAtOnce
	}
	conn, err := k.server.listener.Dial(ctx, url, k.transport)
	if err != nil {
		return nil, err
	}
	k.learnPayload(conn) // before anybody can know that there is a session
	session, err := k.relay.NewSession(conn)
	if err != nil {
		return nil, errors.Join(err, conn.CloseWithError(uint64(moqt.SessionInternalError), ""))
	}
	s := &upstreamSession{UpstreamSession: session, began: time.Now(), ended: make(chan error, 1)}
	k.server.tasks.Go(func() { s.ended <- session.Run(context.Background()) })
	k.server.tasks.Go(func() { watchSilence(conn, k.server.awaitKernel) })
	select {
	case <-session.Ready():
		k.log.Info("connected to the upstream relay", "over", conn.Kind())
		k.set(true, "")
		return s, nil
	case err = <-s.ended:
		return nil, cmp.Or(err, errEndedAtOnce)
	case <-ctx.Done():
		session.Close()
		return nil, context.Cause(ctx)
	}
}

// silent begins the reason with which a session ends whose relay does not answer.
const silent = "no sign of life"

// watchSilence ends a session whose relay does not answer any more, long before the idle timeout would. While packets
// come it sends nothing, and hardly wakes. awaitKernel is Server.awaitKernel.
func watchSilence(conn transport.Conn, awaitKernel func() bool) {
	for answers(conn, awaitKernel) {
		next := time.NewTimer(time.Until(conn.LastReceived().Add(maxSilence)))
		select {
		case <-next.C:
		case <-conn.Context().Done():
			next.Stop()
			return
		}
	}
	reason := fmt.Sprintf("%s within %v", silent, maxSilence+lastChance)
	_ = conn.CloseWithError(uint64(moqt.SessionControlMessageTimeout), reason) // fails only if it has ended
}

// answers reports whether the relay is not silent, answers when it is asked, or has ended the session. A relay that had
// no time itself to look does not count as silent.
//
// Nor does one whose packets the kernel has. Programs send copies of a packet before the socket gets it, and a virtual
// machine's CPU may not run for a second in between. If the session was given up then, the relay would not know what
// subscribers have got, and another source would bring it to them once more.
func answers(conn transport.Conn, awaitKernel func() bool) bool {
	for time.Since(conn.LastReceived()) >= maxSilence {
		began, timeout := time.Now(), max(lastChance, 3*conn.RTT()/2)
		if hears(conn, timeout) {
			return true
		}
		if awaitKernel() && (conn.LastReceived().After(began) || hears(conn, lastLook)) {
			return true
		}
		if time.Since(began) < 2*timeout {
			return false
		}
	}
	return true
}

// hears asks the relay for a sign of life. It reports whether one comes within a time, or the session has ended.
func hears(conn transport.Conn, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(conn.Context(), timeout)
	defer cancel()
	return conn.Probe(ctx) == nil || conn.Context().Err() != nil
}

var errEndedAtOnce = errors.New("the relay has ended the session at once; it may be going away")
