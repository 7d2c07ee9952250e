package relay

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"sluice/internal/logs"
	"sluice/moqt"
)

// mirror shows what a neighbour tells of its publishers, as if a peer of this relay did: another process, an upstream
// relay, or the nodes of a cluster. Terms of the peer say how much is shown, and for how long when it is not told any
// more.
type mirror struct {
	peer *peer
	warn logs.Line

	mu sync.Mutex // held while the directory is changed
	of map[string]*mirrored
}

// mirrored is a namespace, or a track that is offered. It is shown as long as somebody tells it.
type mirrored struct {
	announcement *announcement // of the namespace
	track        *hub          // that is offered; nil: the namespace was announced
	reports      int           // how many tell it
}

func newMirror(p *peer) mirror { return mirror{peer: p, of: make(map[string]*mirrored)} }

// add notes that a namespace is told, or, if this is no first report, that it comes another way now. It returns false
// if it is not shown.
func (m *mirror) add(ns moqt.Namespace, params moqt.Parameters, first bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := ns.Key()
	n := m.of[key]
	if n == nil {
		if n = m.show(ns); n == nil {
			return false
		}
		m.of[key] = n
	}
	if first {
		n.reports++
	}
	if n.track == nil {
		m.peer.relay.directory.announce(n.announcement, params)
	}
	return true
}

// show begins to show a namespace, or the track that it stands for.
func (m *mirror) show(ns moqt.Namespace) *mirrored {
	at := m.peer.place(ns)
	track, name, offered := offerOnLink(ns)
	switch {
	case len(m.of) >= m.peer.names:
		m.warn.Log(m.peer.relay.log, warnInterval, slog.LevelWarn, "subscribers do not find all namespaces of a relay",
			"upstream", m.peer.url, "limit", m.peer.names)
		return nil
	case m.peer.scoped && offered:
		return m.showTrack(track, name)
	case len(at) == 0:
		return nil
	}
	return &mirrored{announcement: &announcement{peer: m.peer, place: at}}
}

// showTrack offers a track. Its hub exists in this process, too, so that SUBSCRIBE_TRACKS finds it.
func (m *mirror) showTrack(at place, name string) *mirrored {
	directory := &m.peer.relay.directory
	h, refused := directory.acquire(at, name, nil)
	if refused != nil {
		m.peer.relay.log.Warn("subscribers will not find a track of another process of the relay", "err", refused)
		return nil
	}
	h.offeredBy(m.peer, true)
	directory.offer(h)
	return &mirrored{track: h}
}

// remove is the reverse of a first add.
func (m *mirror) remove(ns moqt.Namespace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	directory, key := &m.peer.relay.directory, ns.Key()
	n := m.of[key]
	if n.reports--; n.reports == 0 {
		delete(m.of, key)
	}
	switch {
	case n.reports == 0 && n.track != nil:
		n.track.offeredBy(m.peer, false)
		directory.offer(n.track)
		directory.release(n.track)
	case n.track == nil:
		if n.reports == 0 {
			directory.withdraw(n.announcement)
		}
		directory.reroute(n.announcement.place)
	}
}

// report is what one request about namespaces has told, for a mirror.
type report struct {
	ctx    context.Context // done when this end has given the request up
	mirror *mirror

	mu    sync.Mutex // held while the mirror is changed
	of    map[string]moqt.Namespace
	ended bool
}

func newReport(ctx context.Context, m *mirror) *report {
	return &report{ctx: ctx, mirror: m, of: make(map[string]moqt.Namespace)}
}

// changed is called for each namespace that appears, moves or disappears. All disappear when the request ends, which
// means something only if the neighbour has ended it.
func (r *report) changed(ns moqt.Namespace, published bool, params moqt.Parameters) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := ns.Key()
	_, known := r.of[key]
	switch {
	case r.ended, r.ctx.Err() != nil:
	case published && r.mirror.add(ns, params, !known):
		r.of[key] = ns
	case !published && known:
		delete(r.of, key)
		r.mirror.remove(ns)
	}
}

// end forgets the namespaces after the peer's linger. By then another request, or one in another session, has told
// those that are still there.
func (r *report) end() {
	r.mu.Lock()
	r.ended = true // of does not change any more
	r.mu.Unlock()
	forget := func() {
		for ns := range maps.Values(r.of) {
			r.mirror.remove(ns)
		}
	}
	if linger := r.mirror.peer.linger; linger > 0 {
		time.AfterFunc(linger, forget)
	} else {
		forget()
	}
}
