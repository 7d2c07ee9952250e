package relay

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/hub"
	"sluice/relay/internal/names"
	"sluice/transport"
)

// maxUpstreamNamespaces bounds the namespaces of an upstream relay that subscribers are told of.
const maxUpstreamNamespaces = 1 << 14

// Neighbors are the other processes of a relay, and its upstream relays, with the [Routes] to them.
type Neighbors struct {
	relay  *Relay
	routes atomic.Pointer[Routes]
}

// NewLink makes a link of a connection. The end that has opened the connection is the client and sends the secret; the
// other one ends the session if the secret is not its own. No limit, quota or authorization counts for a link, and it
// is in no status: the other process has seen to all that. Its requests name tracks by their places: the namespace has
// the scope in front.
func (ns *Neighbors) NewLink(conn transport.Conn, role session.Role, secret []byte) (*Neighbor, error) {
	r := ns.relay
	t := hub.Terms{From: hub.Beside, Patience: r.cfg.MaxRendezvous, Scoped: true, Hidden: true}
	p := newPeer(r, t, permitAll)
	cfg := session.Config{Role: role, Limits: linkLimits, Logger: r.log.With("link", true)}
	if role == session.Client {
		cfg.Path = "/"
		cfg.Tokens = []moqt.Token{{AliasType: moqt.AliasUseValue, Type: linkTokenType, Value: secret}}
		secret = nil
	}
	return newNeighbor(p, conn, cfg, hub.NewMirror(&p.Peer), secret)
}

// NewUpstreamRelay returns an upstream relay, which is not connected yet.
func (ns *Neighbors) NewUpstreamRelay(cfg UpstreamRelayConfig) (*UpstreamRelay, error) {
	target, err := transport.ParseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("upstream relay: %w", err)
	}
	r := ns.relay
	u := &UpstreamRelay{
		relay: r, cfg: cfg, name: transport.WithoutQuery(cfg.URL), scope: r.cfg.Scope(target.Authority, target.Path),
	}
	u.names = hub.NewMirror(&u.newPeer().Peer)
	u.names.Limit, u.names.Linger = maxUpstreamNamespaces, r.cfg.Linger
	u.names.Full = func() {
		u.warn.Log(r.log, time.Minute, slog.LevelWarn, "an upstream relay has too many namespaces",
			"upstream", u.name, "limit", maxUpstreamNamespaces)
	}
	return u, nil
}

// SetRoutes replaces the routes. Default: there are none.
func (ns *Neighbors) SetRoutes(routes Routes) {
	ns.routes.Store(&routes)
	ns.Reroute()
}

// Reroute makes the relay look again where to subscribe. It has to be called when the answers of the Routes have
// changed. A track moves to the upstream relay that is preferred now without a gap: both bring it for a moment.
func (ns *Neighbors) Reroute() {
	ns.relay.directory.Reroute()
}

// upstreamsOf returns the upstream relays that may have a track at a place.
func (ns *Neighbors) upstreamsOf(at names.Place) []*UpstreamRelay {
	return (*ns.routes.Load()).Upstreams(at[0], at[1:])
}

// of returns the neighbours that may have a track at a place, in the order in which they are asked: the other
// processes, and the upstream relays that the routes name. It reports whether there may be another one soon.
func (ns *Neighbors) of(at names.Place) (peers []*hub.Peer, connecting bool) {
	for _, p := range ns.relay.sessions.at(hub.Beside) {
		peers = append(peers, &p.Peer)
	}
	for _, u := range ns.upstreamsOf(at) {
		p, soon := u.current()
		if p != nil {
			peers = append(peers, &p.Peer)
		}
		connecting = connecting || soon
	}
	return peers, connecting
}

// MirrorRemote returns a function that says that another relay, of a name, has a publisher for a namespace to which
// [Routes] lead, or has none any more. Those that watch the namespace are told, and tracks in it that have subscribers.
func (ns *Neighbors) MirrorRemote(scope string) (changed func(relay string, ns moqt.Namespace, published bool)) {
	p := (&UpstreamRelay{relay: ns.relay, scope: scope}).newPeer() // it has no session
	m := hub.NewMirror(&p.Peer)
	return func(relay string, ns moqt.Namespace, published bool) {
		m.Changed(relay, ns, published, moqt.Parameters{})
	}
}

// FollowNamespaces calls f for each namespace of a scope in which peers publish that are connected to this process, or
// to another one of this relay: for the present ones at once, and from then on for each that appears or disappears.
// Such a namespace was announced (PUBLISH_NAMESPACE), or a track in it is offered (PUBLISH). What comes from upstream
// relays does not count. f may be told again what it knows. It is called with locks held: it must return at
// once and must not call the relay. stop ends the calls.
func (ns *Neighbors) FollowNamespaces(scope string, f func(ns moqt.Namespace, published bool)) (stop func()) {
	p := &hub.Peer{Terms: hub.Terms{Reach: hub.Beside}, Directory: ns.relay.directory, Scope: scope}
	return ns.relay.directory.Names.Follow(p, func(ns moqt.Namespace, on bool, _ moqt.Parameters) { f(ns, on) })
}

// CountFed returns how many tracks each upstream relay feeds.
func (ns *Neighbors) CountFed() map[*UpstreamRelay]int {
	counts := make(map[*UpstreamRelay]int)
	for p, n := range ns.relay.directory.Report().Fed() {
		counts[p.Owner.(*peer).upstream] += n
	}
	return counts
}
