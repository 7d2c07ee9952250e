package hub

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/claim"
	"sluice/clock"
	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/fetch"
	"sluice/relay/internal/names"
	"sluice/transport"
)

// sluice is the MOQT_IMPLEMENTATION of this program.
const sluice = "sluice"

// Peer is a session as hubs know it: it brings tracks, gets them, or both.
type Peer struct {
	Terms
	charge.Purse
	Owner     Owner
	Directory *Directory
	ID        uint64 // of the session, counted from 1
	Conn      transport.Conn
	Session   *session.Session
	QLog      *qlog.Recorder // nil: the connection has no qlog
	Sender    MediaSender
	Forwarder claim.ForwarderConn // nil: the fast path does not serve the peer
	turns     fetch.Turns         // order the responses to FETCH
	Sets      renditionSets

	unpausable atomic.Bool // it has ended a subscription instead of changing its Forward State

	// Set before any request is handled.
	Setup session.Peer
	Scope string

	mu       sync.Mutex
	excluded []nameDigest // tracks that the peer may not publish any more, oldest first: see Hub.malformed
}

// maxExcluded is how many tracks are remembered that a peer may not publish any more. The objects of one that is
// forgotten are compared again.
const maxExcluded = 256

// Owner is who runs the session of a peer. Its methods are called with locks held.
type Owner interface {
	// Publishes says that the peer begins to publish a track, or has ended, and why.
	Publishes(track *moqt.FullTrackName, on bool, cause error)
	// Subscribes says that a track has its first subscriber, this peer, or has no subscriber any more.
	Subscribes(track *moqt.FullTrackName, on bool)
	// TakesRequests reports whether the session is the one for new requests, as far as there may be others.
	TakesRequests() bool
}

// Permit allows a peer what a request asks for, for as long as the Authorizer says.
type Permit interface {
	// Hold watches the permission until the request ends. lost is called if it ends before.
	Hold(lost func(why *moqt.RequestError))
	// Extend asks the Authorizer again, because of an update of the peer if it has tokens.
	Extend(update []moqt.Token) *moqt.RequestError
	// Expires returns the EXPIRES parameter: nil if the permission lasts as long as the session.
	Expires() *uint64
	// Payers are charged for what the request uses.
	Payers() charge.Payers
	// ForOffer derives the permission for a track below a prefix that is offered because of the request.
	ForOffer(offer *session.Request, prefix moqt.Namespace) Permit
}

// Cost implements names.Peer.
func (p *Peer) Cost() uint64 {
	if p.Hops {
		return p.Setup.Cost
	}
	return 1
}

// Naming implements names.Peer.
func (p *Peer) Naming() names.Naming { return names.Naming{Scope: p.Scope, All: p.Scoped} }

// nameOf is the name by which the peer knows the track of a hub.
func (p *Peer) nameOf(h *Hub) moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: p.Naming().Namespace(h.place), Name: h.name.Name}
}

// isSluice reports whether the peer is a Sluice, which sends the current group from its start to a subscriber that asks
// for all objects. The draft leaves that open (§5.1.2).
func (p *Peer) isSluice() bool { return p.Setup.Implementation == sluice }

// lastReceived returns when the last packet of the peer came, or 0 if that is not measured.
func (p *Peer) lastReceived() clock.Time {
	m, ok := p.Conn.Hooks().(media.Hooks)
	if !ok {
		return 0
	}
	return m.LastReceived()
}

func (p *Peer) Remote() net.Addr { return p.Conn.RemoteAddr() }

// Reject refuses a request of the peer.
func (p *Peer) Reject(r *session.Request, e *moqt.RequestError) {
	if !p.Hidden {
		p.Directory.Fetch.Refused(e.Code)
	}
	_ = r.Reject(e) // fails only if the request is over
}

// Serves implements names.Peer: it reports whether the peer may bring a track for another one.
func (p *Peer) Serves(other *Peer) bool { return p.From <= other.Reach }

// HopID returns the Hop ID of the peer, or 0 if it has none.
func (p *Peer) HopID() uint64 { return p.Setup.HopID }

// Takes implements names.Peer: it reports whether a peer may get what has come through a path.
func (p *Peer) Takes(path moqt.HopPath) bool {
	if !p.Hops {
		return true
	}
	_, err := path.Through(p.Directory.HopID)
	return err == nil && !path.Has(p.HopID())
}

// exclude stops the peer from publishing a track for the rest of its session.
func (p *Peer) exclude(h *Hub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.excluded) == maxExcluded {
		p.excluded = slices.Delete(p.excluded, 0, 1)
	}
	p.excluded = append(p.excluded, digestOf(h.name))
}

func (p *Peer) isExcluded(h *Hub) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.excluded) > 0 && slices.Contains(p.excluded, digestOf(h.name))
}

// asker is who asks for a track: a peer, with the relays that its request has come through.
type asker struct {
	peer *Peer
	path moqt.HopPath
}

// mayUse reports whether another peer may be asked for the track: none that waits for the asker.
func (a asker) mayUse(p *Peer) bool { return p.Serves(a.peer) && !a.path.Has(p.HopID()) }
