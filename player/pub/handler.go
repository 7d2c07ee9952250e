package pub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/client"
)

// handler is the publisher's end of one session: it offers the broadcast and answers the relay's requests.
type handler struct {
	session.Unsupported
	p     *publisher
	link  *client.Link
	log   *slog.Logger
	moved chan struct{} // closed when another session replaces this one

	mu     sync.Mutex
	active int           // deliveries
	idle   chan struct{} // closed when the last one has ended
}

// lookup returns the track with that name. It rejects the request if there is none.
func (h *handler) lookup(r *session.Request, name moqt.FullTrackName) *track {
	t := h.p.broadcast.byName[name.Name]
	if t == nil || !name.Namespace.Equal(h.p.broadcast.namespace) {
		// Reject fails only if the request is over.
		_ = r.Reject(&moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "there is no such track"})
		return nil
	}
	if wanted := h.p.cfg.Wanted; wanted != nil && t.content == nil {
		wanted(r.Context())
	}
	return t
}

// HandleSubscribe implements [session.Handler].
func (h *handler) HandleSubscribe(p *session.Publication) {
	t := h.lookup(p.Request, p.Track())
	if t == nil {
		return
	}
	largest := t.largest()
	parameters := p.Parameters()
	allowed := t.startOf(parameters.Filter, largest)
	if allowed.Empty() {
		_ = p.Reject(&moqt.RequestError{
			Code: moqt.RequestInvalidRange, Reason: "the range has been published: use FETCH",
		})
		return
	}
	if err := p.Accept(moqt.Parameters{LargestObject: largest}, t.properties); err != nil {
		return // the request is over
	}
	h.log.Debug("subscribed", "track", t.name, "from", allowed.Start, "forward", p.Forward())
	h.serve(t, p, allowed, p.Fill(nil, largest))
	if missed := largest != nil && largest.Less(allowed.Start); missed && t.content != nil {
		t.republish(0)
	}
	t.newGroup(parameters.NewGroupRequest)
}

// serve starts a delivery of a track, and a fill if there is one.
func (h *handler) serve(t *track, p *session.Publication, allowed moqt.Range, fill *session.FillRequest) {
	if t.content == nil {
		h.p.wanted()
	}
	d := newDelivery(t, p, allowed, h.moved)
	d.fill(fill)
	h.p.stats.subscriptions.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.active++; h.active == 1 {
		h.idle = make(chan struct{})
	}
	go func() {
		d.run()
		h.p.stats.subscriptions.Add(-1)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.active--; h.active == 0 {
			close(h.idle)
		}
	}()
}

// busy returns a channel that is closed when the last delivery has ended, or nil if there is none.
func (h *handler) busy() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.active == 0 {
		return nil
	}
	return h.idle
}

// HandleTrackStatus implements [session.Handler].
func (h *handler) HandleTrackStatus(r *session.IncomingTrackStatus) {
	if t := h.lookup(r.Request, r.Message.Track); t != nil {
		_ = r.OK(moqt.Parameters{LargestObject: t.largest()}, t.properties) // fails only if the request is over
	}
}

// Serve implements [client.Endpoint].
func (h *handler) Serve(ctx context.Context) error {
	h.p.begin.Do(func() { go h.p.feed() })
	withdraw, err := h.announce(ctx)
	if err != nil {
		return err
	}
	h.link.Established()
	select {
	case <-h.p.fed:
		h.finish(ctx)
		withdraw()
		return h.p.inputErr()
	case <-ctx.Done(): // the session has ended, or another one replaces it
		withdraw()
		close(h.moved)
		h.finish(h.link.Context())
		return context.Cause(ctx)
	}
}

// finish waits until all deliveries have ended, and then for linger.
func (h *handler) finish(ctx context.Context) {
	for {
		if busy := h.busy(); busy != nil {
			select {
			case <-busy:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(linger):
		case <-ctx.Done():
			return
		}
		if h.busy() == nil {
			return
		}
	}
}

// announce offers the broadcast to the relay.
func (h *handler) announce(ctx context.Context) (withdraw func(), err error) {
	cfg := h.p.cfg
	ns, err := h.link.PublishNamespace(ctx, moqt.PublishNamespace{
		Namespace:  cfg.Namespace,
		Parameters: moqt.Parameters{AuthorizationTokens: cfg.Client.Tokens},
	})
	if err == nil {
		err = ns.Wait(ctx)
	}
	if err != nil {
		return nil, &RefusedError{fmt.Sprintf("publish namespace %s", cfg.Namespace), err}
	}
	h.log.Info("published", "namespace", cfg.Namespace, "relay", h.link.Name())
	if cfg.Publish {
		for _, t := range h.p.broadcast.tracks {
			if err := h.publish(ctx, t); err != nil {
				return nil, &RefusedError{fmt.Sprintf("publish track %s", t.name), err}
			}
		}
	}
	return func() { ns.Cancel(moqt.ResetCancelled) }, nil
}

// publish offers a track with PUBLISH and sends it from the current group on, unless the relay is subscribed already.
func (h *handler) publish(ctx context.Context, t *track) error {
	largest := t.largest()
	p, err := h.link.Publish(ctx, moqt.Publish{
		Track: t.name, Properties: t.properties,
		Parameters: moqt.Parameters{AuthorizationTokens: h.p.cfg.Client.Tokens, LargestObject: largest},
	})
	if errors.Is(err, session.ErrDuplicate) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		if e, ok := errors.AsType[*moqt.RequestError](err); ok &&
			(e.Code == moqt.RequestUninterested || e.Code == moqt.RequestDuplicateSubscription) {
			h.log.Info("the relay does not want a track for now", "track", t.name, "reason", e.Code)
			return nil
		}
		return err
	}
	h.serve(t, p, t.startOf(p.Parameters().Filter, largest), nil)
	return nil
}
