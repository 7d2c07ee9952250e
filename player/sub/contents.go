package sub

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/client"
	"sluice/player/cmaf"
)

// contents is a subscription to a catalog or to an init segment: each group of such a track begins with an object that
// is the whole content.
type contents struct {
	cfg *PlayerConfig
	sub *session.Subscription

	newest chan []byte // at most one: the content of the latest group that has come
	mu     sync.Mutex
	last   []byte // what came last
	groups uint64 // of which nothing is wanted any more: those below
}

// subscribeContents subscribes to such a track, and waits for the answer as subscribe does.
func subscribeContents(
	ctx context.Context, cfg *PlayerConfig, l *client.Link, name string, wait time.Duration,
) (*contents, error) {
	c := &contents{cfg: cfg, newest: make(chan []byte, 1)}
	full := moqt.FullTrackName{Namespace: cfg.Namespace, Name: name}
	s, largest, err := subscribe(ctx, cfg, l, request(full, fromNow), wait, &plainReceiver{cfg, c.take})
	if err != nil {
		return nil, err
	}
	c.sub = s
	if largest != nil {
		go cfg.try(func() { c.fetch(*largest) })
	}
	return c, nil
}

// firstContent returns the present content of a track.
func firstContent(ctx context.Context, cfg *PlayerConfig, l *client.Link, name string) ([]byte, error) {
	c, err := subscribeContents(ctx, cfg, l, name, cfg.Wait)
	if err != nil {
		return nil, err
	}
	defer c.end()
	return c.first(ctx)
}

// end ends the subscription.
func (c *contents) end() {
	c.sub.Cancel(moqt.ResetCancelled)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg.Memory.Give(len(c.last))
	c.last = nil
}

// take keeps the content of a group, unless it is the same as before, or that of a later group has come. One that is
// too long, or for which there is no memory, is none.
func (c *contents) take(i item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.location.Object != 0 || i.location.Group < c.groups || len(i.payload) > cmaf.MaxHeaderSize {
		return
	}
	c.groups = i.location.Group + 1
	if same := bytes.Equal(i.payload, c.last); same && len(i.payload) > 0 {
		return
	}
	if !c.cfg.Memory.Take(len(i.payload)) {
		return
	}
	c.cfg.Memory.Give(len(c.last))
	c.last = i.payload
	select {
	case <-c.newest:
	default:
	}
	c.newest <- i.payload
}

// next waits for a content that has not been returned yet.
func (c *contents) next(ctx context.Context) ([]byte, error) {
	select {
	case content := <-c.newest:
		return content, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.sub.Context().Done():
	}
	select {
	case content := <-c.newest: // it came before the end
		return content, nil
	default:
		return nil, fmt.Errorf("track %s: %w", c.sub.Track().Name, context.Cause(c.sub.Context()))
	}
}

// first returns the present content: the current group's, or else the next content that comes.
func (c *contents) first(ctx context.Context) ([]byte, error) {
	none := &MediaError{fmt.Errorf("track %s has no object", c.sub.Track().Name)}
	ctx, cancel := context.WithTimeoutCause(ctx, firstContentTimeout, none)
	defer cancel()
	return c.next(ctx)
}

// fetch fetches the current group until it, or a later one, has come.
func (c *contents) fetch(largest moqt.Location) {
	ctx, cancel := context.WithTimeout(c.sub.Context(), firstContentTimeout)
	defer cancel()
	for c.waits() {
		// The relay may not have the object yet, if its publisher does not answer FETCH.
		err := fetch(ctx, c.cfg, c.sub, moqt.Fetch{FetchType: moqt.FetchRelativeJoining}, largest, c.take)
		if err != nil && ctx.Err() == nil {
			c.cfg.Client.Logger.Debug("cannot fetch, trying again", "track", c.sub.Track().Name, "err", err)
		}
		select {
		case <-time.After(fetchAgain): // also if the response has a marker instead of the object
		case <-ctx.Done():
			return
		}
	}
}

// waits reports whether nothing has come.
func (c *contents) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.groups == 0
}

const (
	firstContentTimeout = 10 * time.Second       // from the publisher's acceptance of the subscription to the object
	fetchAgain          = 250 * time.Millisecond // until a FETCH without that object is repeated
)
