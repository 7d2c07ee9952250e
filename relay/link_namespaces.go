package relay

import (
	"sync"

	"sluice/moqt"
)

// linkNamespaces are the namespaces that publishers of another process have announced. In this process, the link is
// their publisher.
type linkNamespaces struct {
	link *peer

	mu     sync.Mutex // held while the directory is changed
	of     map[string]*announcement
	tracks linkTracks
	ended  bool
}

func newLinkNamespaces(p *peer) linkNamespaces {
	return linkNamespaces{
		link: p, of: make(map[string]*announcement), tracks: linkTracks{link: p, of: make(map[string]*hub)},
	}
}

// follow asks the other process for its namespaces and tracks, of all scopes.
func (n *linkNamespaces) follow() {
	p := n.link
	_, err := p.session.SubscribeNamespace(p.session.Context(), moqt.SubscribeNamespace{}, n.changed)
	if err != nil && p.session.Context().Err() == nil {
		p.relay.log.Warn("subscribers will not find the namespaces of another process of the relay", "err", err)
	}
}

// changed is called for each namespace that appears or disappears, and each that stands for a track.
func (n *linkNamespaces) changed(ns moqt.Namespace, published bool, _ moqt.Parameters) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return
	}
	if at, name, ok := trackOnLink(ns); ok {
		n.tracks.changed(ns, at, name, published)
		return
	}
	directory := &n.link.relay.directory
	key := ns.Key()
	switch a := n.of[key]; {
	case len(n.link.place(ns)) == 0:
	case published && a == nil:
		a = newAnnouncement(n.link, ns, moqt.Parameters{})
		n.of[key] = a
		directory.announce(a)
	case !published && a != nil:
		delete(n.of, key)
		directory.withdraw(a)
	}
}

// end withdraws all namespaces, when the link has ended.
func (n *linkNamespaces) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	for _, a := range n.of {
		n.link.relay.directory.withdraw(a)
	}
	n.of = nil
	n.tracks.end()
}

// namespaceFor is how a peer names the namespace of an announcement. It returns false if the peer must not know it:
// links and upstream relays are told of publishers of the own process only.
func (a *announcement) namespaceFor(p *peer) (moqt.Namespace, bool) {
	at := a.at()
	if !p.scoped {
		return at[1:], a.peer.serves(p)
	}
	ns := namespaceOnLink(at)
	return ns, a.peer.serves(p) && ns.Validate() == nil
}
