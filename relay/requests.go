package relay

import (
	"cmp"
	"context"
	"errors"
	"time"

	"sluice/internal/unlucky"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/fetch"
	"sluice/relay/internal/hub"
	"sluice/relay/internal/names"
	"sluice/transport"
)

// requests serves the requests of a peer. It implements session.Handler: each method is called on a goroutine of its
// own, and returns when the request has ended.
type requests struct{ peer *peer }

var _ session.Handler = (*requests)(nil)

// OriginPath is the path of the URL at which another relay asks this one as the origin of tracks: it gets what
// publishers of this relay have, and nothing that this one would have to ask other relays for. So requests of relays
// that ask each other come to an end.
const OriginPath = "/.origin"

// errNoProof closes the session: it has the code UNAUTHORIZED.
var errNoProof = errors.New("path " + OriginPath + " is for relays that prove by a certificate who they are")

// HandleSetup implements session.Handler.
func (q *requests) HandleSetup(_ *session.Session, setup session.Peer) error {
	p := q.peer
	reach := p.Reach
	if transport.WithoutQuery(cmp.Or(p.Conn.Path(), setup.Path)) == OriginPath {
		if p.relay.cfg.OriginNeedsProof && !p.Conn.PeerIsVerified() {
			return errNoProof
		}
		reach = hub.Beside
	}
	p.begin(setup, p.relay.cfg.Scope(setup.Authority, setup.Path), reach)
	return nil
}

// HandleGoaway implements session.Handler. The session itself refuses new requests of the relay, and the peer moves the
// others: its subscriptions and publications end with the session, unless it has moved them before.
func (q *requests) HandleGoaway(*session.Session, moqt.Goaway) {}

// withHub authorizes a request about a track, and calls serve with the track's hub, which exists until serve returns.
func (q *requests) withHub(
	r *session.Request, a Action, name moqt.FullTrackName, serve func(*hub.Hub, *permission),
) {
	unlucky.Late()
	permit, refused := q.peer.authorize(r, a, name)
	if refused != nil {
		q.peer.Reject(r, refused)
		return
	}
	at := q.peer.Naming().Place(name.Namespace)
	if len(at) == 0 { // it has to name a scope, and does not
		q.peer.Reject(r, fetch.ErrNoSource)
		return
	}
	directory := q.peer.relay.directory
	h, refused := directory.Acquire(at, name.Name, permit.payers)
	if refused != nil {
		q.peer.Reject(r, refused)
		return
	}
	defer directory.Release(h)
	serve(h, permit)
}

// HandleSubscribe implements session.Handler (draft §9.4).
func (q *requests) HandleSubscribe(pub *session.Publication) {
	q.withHub(pub.Request, ActionSubscribe, pub.Track(), func(h *hub.Hub, m *permission) {
		h.Subscribe(&q.peer.Peer, pub, m)
	})
}

// HandlePublish implements session.Handler (draft §10.10).
func (q *requests) HandlePublish(sub *session.Subscription) {
	q.withHub(sub.Request, ActionPublish, sub.Track(), func(h *hub.Hub, m *permission) {
		if q.awaitWatchers(sub) {
			h.Publish(&q.peer.Peer, sub, m)
		}
	})
}

// maxPublishWait is how long a PUBLISH may wait: the session keeps streams of the track for about as long.
const maxPublishWait = time.Second

// awaitWatchers waits until the peer's address may tell all watchers of a track. It refuses the PUBLISH if that takes
// too long.
func (q *requests) awaitWatchers(sub *session.Subscription) bool {
	ctx, cancel := context.WithTimeout(sub.Context(), maxPublishWait)
	defer cancel()
	at, account := q.peer.Naming().Place(sub.Track().Namespace), q.peer.Address
	if account.AwaitMatches(ctx, q.peer.relay.directory.Watchers(at)) != nil {
		q.peer.Reject(sub.Request, account.Refuse(charge.RequestRate))
		return false
	}
	return true
}

// HandleFetch implements session.Handler (draft §10.12.3).
func (q *requests) HandleFetch(req *session.IncomingFetch) {
	q.withHub(req.Request, ActionFetch, req.Track, func(h *hub.Hub, m *permission) {
		h.Fetch(&q.peer.Peer, req, m)
	})
}

// HandleTrackStatus implements session.Handler (draft §10.14).
func (q *requests) HandleTrackStatus(req *session.IncomingTrackStatus) {
	q.withHub(req.Request, ActionTrackStatus, req.Message.Track, func(h *hub.Hub, m *permission) {
		m.Hold(m.cancel)
		h.TellStatus(&q.peer.Peer, req)
	})
}

// HandlePublishNamespace implements session.Handler (draft §6.2).
func (q *requests) HandlePublishNamespace(req *session.IncomingPublishNamespace) {
	ns := req.Message.Namespace
	permit, refused := q.peer.authorize(req.Request, ActionPublishNamespace, moqt.FullTrackName{Namespace: ns})
	if refused != nil {
		q.peer.Reject(req.Request, refused)
		return
	}
	q.serveAnnouncement(&hub.Announcement{Peer: &q.peer.Peer, Place: q.peer.Naming().Place(ns)}, req, permit)
}

// serveAnnouncement accepts a PUBLISH_NAMESPACE, and keeps the namespace known until the request ends.
func (q *requests) serveAnnouncement(a *hub.Announcement, req *session.IncomingPublishNamespace, permit *permission) {
	directory := q.peer.relay.directory
	permit.Hold(func(why *moqt.RequestError) {
		directory.Revoke(a)
		permit.cancel(why)
	})
	permit.updated = func() {
		err := q.peer.awaitMatches(req.Context(), directory.CountBelow(a.Place))
		if err == nil && q.peer.Address.AwaitMatches(req.Context(), directory.Names.Watchers(a.Place)) == nil {
			directory.Show(a, req.Parameters())
		} // else the request is over
	}
	permit.updated() // before the answer: after it, the publisher may rely on being found
	defer directory.Names.Withdraw(a)
	if req.OK() != nil {
		return
	}
	permit.keep(nil)
}

// HandleSubscribeNamespace implements session.Handler (draft §6.1).
func (q *requests) HandleSubscribeNamespace(req *session.IncomingSubscribeNamespace) {
	m := &req.Message
	serveWatch(q.peer, req.Request, ActionSubscribeNamespace, m.Prefix, req.OK, func(*permission) watch {
		prefix := names.Prefix[*hub.Peer]{Peer: &q.peer.Peer, Path: m.Parameters.HopPath}
		return &names.Watch[*hub.Peer]{Prefix: prefix, Space: &q.peer.relay.directory.Names, Told: q.tell(req)}
	})
}

// tell returns a function that tells the peer about namespaces, but not about more at a time than a prefix may match:
// the relay has to remember them. Relays have limits of their own.
func (q *requests) tell(req *session.IncomingSubscribeNamespace) names.Notify {
	told := tell(req)
	return func(ns moqt.Namespace, published bool, way moqt.Parameters) {
		if !published || q.peer.IsRelay() || req.Reported() < q.peer.relay.cfg.MaxMatches {
			told(ns, published, way)
		}
	}
}

// tell returns a function that tells a peer about namespaces. It fails only if the request is over.
func tell(req *session.IncomingSubscribeNamespace) names.Notify {
	return func(ns moqt.Namespace, published bool, way moqt.Parameters) {
		if published {
			_ = req.Add(ns, way)
		} else {
			_ = req.Remove(ns)
		}
	}
}

// HandleSubscribeTracks implements session.Handler (draft §6.1).
func (q *requests) HandleSubscribeTracks(req *session.IncomingSubscribeTracks) {
	serveWatch(q.peer, req.Request, ActionSubscribeTracks, req.Message.Prefix, req.OK, func(m *permission) watch {
		return hub.NewTracksWatch(&q.peer.Peer, req, m)
	})
}
