package hub

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/names"
	"sluice/transport"
)

// TracksWatch is an accepted SUBSCRIBE_TRACKS: the relay offers the peer the tracks that publishers offer, also those
// of other processes of the relay, and those that come from an upstream relay.
type TracksWatch struct {
	names.Prefix[*Peer]
	request *session.IncomingSubscribeTracks
	payers  charge.Payers // of the request, and of what it leads to
	permit  Permit        // of the request

	mu      sync.Mutex
	blocked map[nameDigest]struct{} // tracks that PUBLISH_BLOCKED was sent for
}

// nameDigest stands for the name of a track, which may be long.
type nameDigest [sha256.Size]byte

func digestOf(name moqt.FullTrackName) nameDigest { return sha256.Sum256([]byte(name.Key())) }

func NewTracksWatch(p *Peer, req *session.IncomingSubscribeTracks, permit Permit) *TracksWatch {
	return &TracksWatch{
		Prefix: names.Prefix[*Peer]{Peer: p, Path: req.Message.Parameters.HopPath}, request: req,
		payers: permit.Payers(), permit: permit, blocked: make(map[nameDigest]struct{}),
	}
}

// Enter implements watch.
func (w *TracksWatch) Enter(prefix moqt.Namespace, admit func(n int) bool) (tell func(context.Context)) {
	d := w.Peer.Directory
	d.mu.Lock()
	defer d.mu.Unlock()
	if !admit(d.tracks.Count(w.Peer.Naming().Place(prefix))) {
		return nil
	}
	d.watches.Remove(w.Place(), w)
	w.Namespace = prefix
	d.watches.Add(w.Place(), w)
	hubs := slices.Collect(d.tracks.Under(w.Place()))
	return func(ctx context.Context) { names.Tell(ctx, &d.mu, hubs, w.foundLocked) }
}

// Leave implements watch.
func (w *TracksWatch) Leave() {
	d := w.Peer.Directory
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches.Remove(w.Place(), w)
}

// foundLocked sends PUBLISH for a track that a publisher has offered, unless the peer has the track already;
// Directory.mu is held.
func (w *TracksWatch) foundLocked(h *Hub) {
	by := w.Peer.Directory.Names.OfferedBy(&h.offer)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subscribers.waiting, w)
	present := len(by) > 0 || h.publishers.have(broughtFrom(Elsewhere))
	isPeer := func(d *downstream) bool { return d.peer == w.Peer }
	has := h.publishers.of[w.Peer] != nil || h.subscribers.have(isPeer)
	if !present || has || w.isBlocked(h.name) {
		return
	}
	if !h.publishers.areEstablished() {
		h.subscribers.waiting[w] = struct{}{} // until a publisher has described the track
		for _, p := range by {
			if p.From > Here {
				h.choice.start(p, nil)
			}
		}
		return
	}
	supplied := h.publishers.supply(asker{peer: w.Peer})
	if !supplied.established {
		return // the peer is a relay that the track comes from
	}
	params := w.request.Parameters()
	filters, wanted := params.RangeFilters.ForTrack(h.description.properties)
	if !wanted {
		return
	}
	now := h.data.Position()
	defer now.Close()
	refused := h.subscribers.checkRangeFilters(w.Peer, nil, filters, params.Filter.Range(now.Largest))
	if refused != nil || w.payers.Take(charge.SubscriptionsOpen) != nil {
		w.block(h.name)
		return
	}
	params.RangeFilters = filters
	offer := moqt.Publish{Track: h.name, Parameters: params, Properties: h.description.properties}
	offer.Parameters.LargestObject = now.Largest
	offer.Parameters.HopPath = supplied.path
	if !params.WantsProperties() {
		offer.Properties = nil
	}
	pub, err := w.Peer.Session.TryPublish(offer)
	if errors.Is(err, transport.ErrStreamLimit) {
		w.block(h.name)
	}
	if err != nil {
		w.payers.Give(charge.SubscriptionsOpen)
		return
	}
	context.AfterFunc(pub.Context(), func() { w.payers.Give(charge.SubscriptionsOpen) })
	d := newDownstream(h, w.Peer, pub, &params, w.permit.ForOffer(pub.Request, w.Namespace))
	d.offeredLocked(&params, now)
	h.refs++ // Directory.mu is held
	h.directory.Tasks.Go(d.serveOffer)
}

func (w *TracksWatch) isBlocked(name moqt.FullTrackName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, blocked := w.blocked[digestOf(name)]
	return blocked
}

// block tells the peer that it has no stream for a PUBLISH. The track is not offered again (draft §6.1). The request
// of a peer that has no streams for more tracks than a prefix may match ends: while tracks come and go, the relay would
// have to remember more and more of them.
func (w *TracksWatch) block(name moqt.FullTrackName) {
	w.mu.Lock()
	full := len(w.blocked) >= w.Peer.Directory.MaxMatches
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
