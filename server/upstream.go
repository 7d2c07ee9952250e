package server

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/fastpath"
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
// for WebTransport, the preferred one first. Each is asked when the relay before it has no session or no
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

// upstreamLimits are the transport's limits of a session with an upstream relay, which brings the tracks of many
// subscribers.
var upstreamLimits = transport.Limits{
	MaxIncomingStreams: 1 << 14, MaxIncomingUniStreams: 1 << 14, MaxConnWindow: 64 << 20,
	HandshakeTimeout: 5 * time.Second, KeepAlive: keepAlive,
}

// upstreams are the upstream relays of a server, in the order in which it began to dial them.
type upstreams struct {
	server *Server
	mu     sync.Mutex
	all    []*keeper
}

// keepAll dials the upstream relays of the configuration, and makes the routes to them.
func (us *upstreams) keepAll() error {
	s, cfg := us.server, &us.server.cfg.Upstream
	known := make(map[string]*relay.UpstreamRelay)
	var routes relay.RouteTable
	for _, r := range cfg.Routes {
		route := relay.Route{Prefix: r.Prefix}
		for _, url := range r.URLs {
			if known[url] == nil {
				u, err := us.keep(context.Background(), cfg.relayAt(url), cfg.Transport, cfg.mayMove)
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
		s.relay.Neighbors().Reroute()
	default:
		s.relay.Neighbors().SetRoutes(routes)
	}
	return nil
}

// keep dials an upstream relay, and keeps a session with it until the context is done or the server drains. Packets go
// through the server's own port, so that its media senders and its fast path serve the session. Routes of the relay say
// what to subscribe to there. mayMove reports whether the relay may send the server from its URL to another one by
// GOAWAY; if it is nil, the server stays with the relay.
func (us *upstreams) keep(
	ctx context.Context, cfg relay.UpstreamRelayConfig, t transport.ClientConfig, mayMove func(from, to string) bool,
) (*relay.UpstreamRelay, error) {
	s := us.server
	u, err := s.relay.Neighbors().NewUpstreamRelay(cfg)
	if err != nil {
		return nil, err
	}
	t.Protocols, t.Limits, t.NewHooks = moqt.ALPNs(), upstreamLimits, us.newHooks
	t.ProbeAfter = -1 // KeepAlive is more often
	k := &keeper{
		server: s, relay: u, url: cfg.URL, mayMove: mayMove, announces: len(cfg.Announce) > 0, transport: t,
		log: s.log.With("upstream", u.Name()),
	}
	k.payload.Store(fastpath.MaxUDPPayloadSize)
	kept, cancel := context.WithCancel(s.relay.Drained()) // at once, when the relay closes its sessions
	us.mu.Lock()
	us.all = append(us.all, k)
	us.mu.Unlock()
	s.tasks.Go(func() {
		defer us.remove(k)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		k.run(kept)
	})
	return u, nil
}

// newHooks makes the media sender of a connection that the server has dialed.
func (us *upstreams) newHooks(socket net.PacketConn) quic.Hooks {
	return us.server.loop.NewSender(us.server.senderConfig(socket, true)).Hooks()
}

func (us *upstreams) remove(k *keeper) {
	us.mu.Lock()
	defer us.mu.Unlock()
	us.all = slices.DeleteFunc(us.all, func(o *keeper) bool { return o == k })
}

// maxUDPPayloadSize is what a client may send, so that copies of its packets fit at the upstream relays that publishers
// are announced to (see [fastpath.HopGrowth]).
func (us *upstreams) maxUDPPayloadSize() int {
	us.mu.Lock()
	defer us.mu.Unlock()
	size := fastpath.MaxUDPPayloadSize
	for _, k := range us.all {
		if k.announces {
			size = min(size, max(int(k.payload.Load())-fastpath.HopGrowth, minUDPPayloadSize))
		}
	}
	return size
}

func (us *upstreams) status() (list []UpstreamStatus) {
	us.mu.Lock()
	defer us.mu.Unlock()
	for _, k := range us.all {
		list = append(list, k.status())
	}
	return list
}
