package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// tracksWatch is an accepted SUBSCRIBE_TRACKS: the relay offers the peer the tracks that publishers offer, also those
// of other processes of the relay, and those that come from an upstream relay.
type tracksWatch struct {
	prefixWatch
	request *session.IncomingSubscribeTracks

	mu      sync.Mutex
	blocked map[nameDigest]struct{} // tracks that PUBLISH_BLOCKED was sent for
}

// nameDigest stands for the name of a track, which may be long.
type nameDigest [sha256.Size]byte

func digestOf(name moqt.FullTrackName) nameDigest { return sha256.Sum256([]byte(name.Key())) }

func newTracksWatch(p *peer, req *session.IncomingSubscribeTracks) *tracksWatch {
	m := &req.Message
	return &tracksWatch{
		prefixWatch: prefixWatch{peer: p, prefix: m.Prefix, path: m.Parameters.HopPath}, request: req,
		blocked: make(map[nameDigest]struct{}),
	}
}

// changedLocked implements watcher: it sends PUBLISH for a track that a publisher has offered, unless the peer has the
// track already.
func (w *tracksWatch) changedLocked(h *hub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subscribers.waiting, w)
	offered := len(h.publishers.offers) > 0
	present := offered || h.publishers.isOffered() || h.publishers.have(broughtFrom(elsewhere))
	has := h.publishers.of[w.peer] != nil || h.subscribers.have(func(d *downstream) bool { return d.peer == w.peer })
	if !present || has || w.isBlocked(h.name) {
		return
	}
	if h.publishers.areEstablished() && !h.publishers.supply(asker{peer: w.peer}).established {
		return // the peer is a relay that the track comes from
	}
	if offered && !h.publishers.areEstablished() {
		h.awaitOfferLocked(w)
		return
	}
	params := w.request.Parameters()
	filters, wanted := params.RangeFilters.ForTrack(h.properties)
	if !wanted {
		return
	}
	now := h.data.Position()
	defer now.Close()
	refused := h.subscribers.checkRangeFilters(w.peer, nil, filters, params.Filter.Range(now.Largest))
	if refused != nil || w.payers.take(subscriptionsOpen) != nil {
		w.block(h.name)
		return
	}
	params.RangeFilters = filters
	offer := moqt.Publish{Track: h.name, Parameters: params, Properties: h.properties}
	offer.Parameters.LargestObject = now.Largest
	offer.Parameters.HopPath = h.publishers.pathFor(asker{peer: w.peer})
	if !params.WantsProperties() {
		offer.Properties = nil
	}
	pub, err := w.peer.session.TryPublish(offer)
	if errors.Is(err, transport.ErrStreamLimit) {
		w.block(h.name)
	}
	if err != nil {
		w.payers.give(subscriptionsOpen)
		return
	}
	context.AfterFunc(pub.Context(), func() { w.payers.give(subscriptionsOpen) })
	d := newDownstream(h, w.peer, pub, &params, w.permitLocked(pub.Request))
	d.offeredLocked(&params, now)
	h.refs++ // directory.mu is held
	h.relay.tasks.Go(d.serveOffer)
}

// permitLocked returns the permission for an offered track: it lasts for as long as the peer may have the tracks of the
// prefix; directory.mu is held.
func (w *tracksWatch) permitLocked(offer *session.Request) *permission {
	m := &permission{
		peer: w.peer, request: offer, watch: w.request.Request, action: ActionSubscribeTracks,
		track: moqt.FullTrackName{Namespace: w.prefix}, payers: w.payers,
	}
	m.lease = w.permit.derive(m.question)
	return m
}

func (w *tracksWatch) isBlocked(name moqt.FullTrackName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, blocked := w.blocked[digestOf(name)]
	return blocked
}

// block tells the peer that it has no stream for a PUBLISH. The track is not offered again (draft §6.1). The request of
// a peer that has no streams for more tracks than a prefix may match ends: while tracks come and go, the relay would
// have to remember more and more of them.
func (w *tracksWatch) block(name moqt.FullTrackName) {
	w.mu.Lock()
	full := len(w.blocked) >= w.peer.relay.cfg.MaxMatches
	if !full {
		w.blocked[digestOf(name)] = struct{}{}
	}
	w.mu.Unlock()
	if full {
		w.request.Cancel(moqt.ResetExcessiveLoad)
		return
	}
	_ = w.request.Blocked(name) // fails only if the request is over
}
