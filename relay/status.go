package relay

import (
	"context"
	"errors"

	"sluice/moqt"
	"sluice/moqt/session"
)

// HandleTrackStatus implements session.Handler (draft §10.14).
func (p *peer) HandleTrackStatus(req *session.IncomingTrackStatus) {
	if _, refused := p.authorize(req.Request, ActionTrackStatus, req.Message.Track); refused != nil {
		p.reject(req.Request, refused)
		return
	}
	h := p.acquire(req.Message.Track)
	if h == nil {
		p.reject(req.Request, errTooManyTracks)
		return
	}
	defer p.relay.release(h)
	if refused := h.learnStatus(req.Context()); refused != nil {
		p.reject(req.Request, refused)
		return
	}
	h.mu.Lock()
	largest, properties := h.data.Largest(), h.properties
	h.mu.Unlock()
	_ = req.OK(moqt.Parameters{LargestObject: largest}, properties) // fails only if the request is over
}

// learnStatus asks publishers for the status of a track, unless a subscription tells it already.
func (h *hub) learnStatus(ctx context.Context) *moqt.RequestError {
	h.mu.Lock()
	_, forwards := h.established()
	h.mu.Unlock()
	if forwards {
		return nil
	}
	failure := errNoSource
	ctx, cancel := context.WithTimeout(ctx, h.relay.cfg.FillTimeout)
	defer cancel()
	for _, p := range h.sources() {
		ok, err := p.session.TrackStatus(ctx, moqt.TrackStatus{Track: h.name})
		if err == nil {
			h.mu.Lock()
			h.describe(ok.Parameters.LargestObject, ok.Properties)
			h.mu.Unlock()
			return nil
		}
		if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
			failure = passOn(refused)
		}
	}
	return h.knownStatus(failure)
}

// knownStatus accepts what was known before, if publishers that are there do not tell more.
func (h *hub) knownStatus(failure *moqt.RequestError) *moqt.RequestError {
	h.mu.Lock()
	defer h.mu.Unlock()
	if established, _ := h.established(); established && h.described {
		return nil
	}
	return failure
}
