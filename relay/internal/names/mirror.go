package names

import (
	"sync"
	"time"

	"sluice/moqt"
)

// Shower shows what a Mirror has. Its methods may lock, and call the Space.
type Shower[P Peer[P]] interface {
	// Show makes an announcement known, or that it comes another way now.
	Show(*Announcement[P], moqt.Parameters)
	// Hide says that one of those that told an announcement does not any more. The last one takes it with it.
	Hide(a *Announcement[P], last bool)
	// ShowOffer says that publishers behind a peer offer a track. hide ends that, and is nil if there is no room.
	ShowOffer(p P, at Place, track string) (hide func())
}

// Mirror shows what a neighbour tells of its publishers, as if a peer of this relay did: another process, an upstream
// relay, or the nodes of a cluster.
type Mirror[P Peer[P]] struct {
	Limit  int           // how much is shown; 0: all
	Full   func()        // called when there is more
	Linger time.Duration // for how long it is shown when it is not told any more

	peer P // that publishes it here
	by   Shower[P]

	mu sync.Mutex // held while by is called
	of map[string]*mirrored[P]
}

// NewMirror returns a mirror for a peer that stands for the publishers of a neighbour.
func NewMirror[P Peer[P]](p P, by Shower[P]) *Mirror[P] {
	return &Mirror[P]{peer: p, by: by, of: make(map[string]*mirrored[P])}
}

// mirrored is a namespace, or a track that is offered. It is shown as long as somebody tells it.
type mirrored[P Peer[P]] struct {
	announcement *Announcement[P] // of the namespace
	hide         func()           // nil: the namespace was announced
	tellers      map[any]struct{}
}

// Changed is called for each namespace that a teller reports, which comes another way now, or which the teller reports
// no longer. A teller is a request, or a node.
func (m *Mirror[P]) Changed(teller any, ns moqt.Namespace, published bool, way moqt.Parameters) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := ns.Key()
	if !published {
		m.dropLocked(teller, key)
		return
	}
	n := m.of[key]
	if n == nil {
		if n = m.newLocked(ns); n == nil {
			return
		}
		m.of[key] = n
	}
	n.tellers[teller] = struct{}{}
	if n.hide == nil {
		m.by.Show(n.announcement, way)
	}
}

// newLocked returns what to show of a namespace, or shows the track that it stands for. It returns nil if there is
// nothing to show.
func (m *Mirror[P]) newLocked(ns moqt.Namespace) *mirrored[P] {
	n := &mirrored[P]{tellers: make(map[any]struct{})}
	at := m.peer.Naming().Place(ns)
	place, track, offered := m.peer.Naming().offered(ns)
	switch {
	case m.Limit > 0 && len(m.of) >= m.Limit:
		m.Full()
		return nil
	case offered:
		if n.hide = m.by.ShowOffer(m.peer, place, track); n.hide == nil {
			return nil
		}
	case at == nil:
		return nil
	default:
		n.announcement = &Announcement[P]{Peer: m.peer, Place: at}
	}
	return n
}

// dropLocked notes that a teller does not report a namespace any more, if it has.
func (m *Mirror[P]) dropLocked(teller any, key string) {
	n := m.of[key]
	if n == nil {
		return
	}
	if _, told := n.tellers[teller]; !told {
		return
	}
	delete(n.tellers, teller)
	last := len(n.tellers) == 0
	if last {
		delete(m.of, key)
	}
	switch {
	case n.hide == nil:
		m.by.Hide(n.announcement, last)
	case last:
		n.hide()
	}
}

// End forgets what a teller has reported, after Linger. By then another one has reported what is still there.
func (m *Mirror[P]) End(teller any) {
	forget := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for key := range m.of {
			m.dropLocked(teller, key)
		}
	}
	if m.Linger > 0 {
		time.AfterFunc(m.Linger, forget)
	} else {
		forget()
	}
}
