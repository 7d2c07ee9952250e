package hub

import (
	"sync"
	"time"

	"sluice/moqt"
)

// Mirror shows what a neighbour tells of its publishers, as if a peer of this relay did: another process, an upstream
// relay, or the nodes of a cluster.
type Mirror struct {
	Limit  int           // how much is shown; 0: all
	Full   func()        // called when there is more
	Linger time.Duration // for how long it is shown when it is not told any more

	peer *Peer // that publishes it here

	mu sync.Mutex // comes before the directory's locks
	of map[string]*mirrored
}

// NewMirror returns a mirror for a peer that stands for the publishers of a neighbour.
func NewMirror(p *Peer) *Mirror { return &Mirror{peer: p, of: make(map[string]*mirrored)} }

// mirrored is a namespace, or a track that is offered. It is shown as long as somebody tells it.
type mirrored struct {
	announcement *Announcement // of the namespace
	hide         func()        // nil: the namespace was announced
	tellers      map[any]struct{}
}

// Changed is called for each namespace that a teller reports, which comes another way now, or which the teller reports
// no longer. A teller is a request, or a node.
func (m *Mirror) Changed(teller any, ns moqt.Namespace, published bool, way moqt.Parameters) {
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
		m.peer.Directory.Show(n.announcement, way)
	}
}

// newLocked returns what to show of a namespace, or shows the track that it stands for. It returns nil if there is
// nothing to show.
func (m *Mirror) newLocked(ns moqt.Namespace) *mirrored {
	n := &mirrored{tellers: make(map[any]struct{})}
	at := m.peer.Naming().Place(ns)
	place, track, offered := m.peer.Naming().Offered(ns)
	switch {
	case m.Limit > 0 && len(m.of) >= m.Limit:
		m.Full()
		return nil
	case offered:
		if n.hide = m.peer.Directory.showOffer(m.peer, place, track); n.hide == nil {
			return nil
		}
	case at == nil:
		return nil
	default:
		n.announcement = &Announcement{Peer: m.peer, Place: at}
	}
	return n
}

// dropLocked notes that a teller does not report a namespace any more, if it has.
func (m *Mirror) dropLocked(teller any, key string) {
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
		m.peer.Directory.hide(n.announcement, last)
	case last:
		n.hide()
	}
}

// End forgets what a teller has reported, after Linger. By then another one has reported what is still there.
func (m *Mirror) End(teller any) {
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
