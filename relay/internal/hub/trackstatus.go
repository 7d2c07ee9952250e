package hub

import (
	"context"
	"errors"
	"slices"

	"sluice/moqt"
	"sluice/relay/internal/fetch"
)

// inquiry asks publishers for the status of a track, on behalf of a peer.
type inquiry struct {
	hub *Hub
	by  asker
}

// learn asks, unless a subscription already provides the status.
func (q inquiry) learn(ctx context.Context) *moqt.RequestError {
	h, a := q.hub, q.by
	if a.peer.From != Here && !q.hasPublisher(ctx) {
		return fetch.ErrNoSource
	}
	h.mu.Lock()
	known := h.publishers.supply(a).forward
	h.mu.Unlock()
	if known {
		return nil
	}
	failure := fetch.ErrNoSource
	ctx, cancel := context.WithTimeout(ctx, h.directory.Fetch.Fill)
	defer cancel()
	budget := fetch.NewBudget(h.directory.Fetch.Fill, &moqt.Parameters{})
	for p := range h.choice.sources(ctx, &budget, a) {
		ok, err := p.Session.TrackStatus(ctx, moqt.TrackStatus{
			Track: p.nameOf(h), Parameters: moqt.Parameters{HopPath: a.path},
		})
		if err == nil {
			h.mu.Lock()
			h.description.learn(ok.Parameters.LargestObject, ok.Properties)
			h.mu.Unlock()
			return nil
		}
		if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
			failure = passOn(refused)
		}
	}
	return q.fallBack(failure)
}

// fallBack accepts the status known before, if the present publishers do not tell more.
func (q inquiry) fallBack(failure *moqt.RequestError) *moqt.RequestError {
	h := q.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.publishers.supply(q.by).established && h.description.known {
		return nil
	}
	return failure
}

// hasPublisher reports whether a publisher of this process answers, or can be asked.
func (q inquiry) hasPublisher(ctx context.Context) bool {
	h := q.hub
	h.mu.Lock()
	own := slices.Collect(h.publishers.where(broughtFrom(Here)))
	h.mu.Unlock()
	return len(own) == 0 || anyIsThere(ctx, own)
}
