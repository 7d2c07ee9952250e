package relay

import (
	"context"
	"errors"
	"slices"

	"sluice/moqt"
	"sluice/moqt/session"
)

// trackStatus is a TRACK_STATUS of a peer.
type trackStatus struct {
	hub  *hub
	peer *peer
	req  *session.IncomingTrackStatus
}

// serve answers the request.
func (t *trackStatus) serve() {
	if refused := t.hub.learnStatus(t.req.Context(), t.asker()); refused != nil {
		t.peer.reject(t.req.Request, refused)
		return
	}
	h := t.hub
	h.mu.Lock()
	largest, properties := h.data.Largest(), h.properties
	h.mu.Unlock()
	_ = t.req.OK(moqt.Parameters{LargestObject: largest}, properties) // fails only if the request is over
}

func (t *trackStatus) asker() asker { return asker{t.peer, t.req.Message.Parameters.HopPath} }

// learnStatus asks publishers for the status of the track, on behalf of a peer, unless a subscription already provides
// it.
func (h *hub) learnStatus(ctx context.Context, a asker) *moqt.RequestError {
	if a.peer.from != here && !h.hasPublisher(ctx) {
		return errNoSource
	}
	h.mu.Lock()
	known := h.publishers.supply(a).forward
	h.mu.Unlock()
	if known {
		return nil
	}
	failure := errNoSource
	ctx, cancel := context.WithTimeout(ctx, h.relay.cfg.FillTimeout)
	defer cancel()
	for p := range h.sources(ctx, &waitBudget{each: h.relay.cfg.FillTimeout}, a) {
		ok, err := p.session.TrackStatus(ctx, moqt.TrackStatus{
			Track: p.nameOf(h), Parameters: moqt.Parameters{HopPath: a.path},
		})
		if err == nil {
			h.mu.Lock()
			h.describeLocked(ok.Parameters.LargestObject, ok.Properties)
			h.mu.Unlock()
			return nil
		}
		if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
			failure = passOn(refused)
		}
	}
	return h.fallBack(a, failure)
}

// fallBack accepts the status known before, if the present publishers do not tell more.
func (h *hub) fallBack(a asker, failure *moqt.RequestError) *moqt.RequestError {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.publishers.supply(a).established && h.described {
		return nil
	}
	return failure
}

// hasPublisher reports whether a publisher of this process answers, or can be asked.
func (h *hub) hasPublisher(ctx context.Context) bool {
	h.mu.Lock()
	own := slices.Collect(h.publishers.where(broughtFrom(here)))
	h.mu.Unlock()
	return len(own) == 0 || anyIsThere(ctx, own)
}
