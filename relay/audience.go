package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"sluice/moqt"
)

// maxAudienceTracks is how many tracks the session of an Audience may ask for: more than any broadcast has. For each of
// them the Authorizer is asked about each guest, and what the tracks are may be a publisher's choice.
const maxAudienceTracks = 64

// Audience is the guests for whom a session of this process with itself subscribes: see [Relay.ServeOwn]. The session
// has no rights of its own. Each guest needs permission for each track that the session asks for: a guest that may not
// subscribe to one of them has to leave, and if none may, the request is refused. What the session gets is a
// publisher's choice, which may name any namespace.
type Audience struct {
	mu     sync.Mutex
	guests map[*Guest]struct{}
	tracks map[string]*audienceTrack
	over   bool // it was refused a track
}

// ErrAudienceOver is returned by [Audience.Join] when nobody in it might subscribe to a track: its session was refused
// that, and cannot have it any more, whoever joins. Another session can.
var ErrAudienceOver = errors.New("the relay's own session was refused a track")

// audienceTrack is a track that the session has asked for.
type audienceTrack struct {
	name    moqt.FullTrackName
	decided chan struct{} // closed when all guests have been asked about
	refused *moqt.RequestError
}

// NewAudience returns an Audience without guests.
func NewAudience() *Audience {
	return &Audience{guests: make(map[*Guest]struct{}), tracks: make(map[string]*audienceTrack)}
}

// Join adds a guest. It returns a *moqt.RequestError for one that may not subscribe to all tracks of the session, and
// [ErrAudienceOver].
func (a *Audience) Join(ctx context.Context, g *Guest) error {
	asked := make(map[string]struct{})
	for {
		name, more, err := a.join(g, asked)
		if !more {
			return err
		}
		if refused := g.allow(ctx, name); refused != nil {
			return refused
		}
		asked[name.Key()] = struct{}{}
	}
}

// join adds a guest that was asked about all tracks, or returns one that it was not asked about.
func (a *Audience) join(g *Guest, asked map[string]struct{}) (next moqt.FullTrackName, more bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return next, false, ErrAudienceOver
	}
	for key, t := range a.tracks {
		if _, ok := asked[key]; !ok {
			return t.name, true, nil
		}
	}
	a.guests[g] = struct{}{}
	return next, false, nil
}

// Leave removes a guest.
func (a *Audience) Leave(g *Guest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.guests, g)
}

// mayAsk returns why the session must not ask for a track, or nil. FETCH is a part of playing: it brings the beginning
// of what the subscription goes on with.
func (a *Audience) mayAsk(ctx context.Context, action Action, name moqt.FullTrackName) *moqt.RequestError {
	if action != ActionSubscribe && action != ActionFetch {
		return &moqt.RequestError{Code: moqt.RequestUnauthorized, Reason: "the relay's own session only subscribes"}
	}
	a.mu.Lock()
	t := a.tracks[name.Key()]
	if t != nil {
		a.mu.Unlock()
		return t.wait(ctx)
	}
	if len(a.tracks) >= maxAudienceTracks {
		a.mu.Unlock()
		return &moqt.RequestError{
			Code: moqt.RequestExcessiveLoad, Reason: fmt.Sprintf("more than %d tracks", maxAudienceTracks),
		}
	}
	t = &audienceTrack{name: name, decided: make(chan struct{})}
	a.tracks[name.Key()] = t // who joins from now on is asked about it
	guests := slices.Collect(maps.Keys(a.guests))
	a.mu.Unlock()
	t.refused = a.decide(name, a.askAbout(name, guests))
	close(t.decided)
	return t.refused
}

// decide returns what becomes of a track that all guests were refused. Who has joined meanwhile may have it.
func (a *Audience) decide(name moqt.FullTrackName, refused *moqt.RequestError) *moqt.RequestError {
	a.mu.Lock()
	defer a.mu.Unlock()
	if refused == nil || len(a.guests) > 0 {
		return nil
	}
	delete(a.tracks, name.Key())
	a.over = true
	return refused
}

func (t *audienceTrack) wait(ctx context.Context) *moqt.RequestError {
	select {
	case <-t.decided:
		return t.refused
	case <-ctx.Done():
		return &moqt.RequestError{Code: moqt.RequestInternalError, Reason: "the request has ended"}
	}
}

// askAbout asks whether guests may subscribe to a track. Those that may not have to leave. It returns a refusal if
// nobody may. The answers are for requests to come, too, so the end of the request that asks first changes none.
func (a *Audience) askAbout(name moqt.FullTrackName, guests []*Guest) *moqt.RequestError {
	refusals := make([]*moqt.RequestError, len(guests))
	var asking sync.WaitGroup
	for i, g := range guests {
		asking.Go(func() { refusals[i] = g.allow(g.ctx, name) })
	}
	asking.Wait()
	allowed, last := false, &moqt.RequestError{Code: moqt.RequestUnauthorized, Reason: "nobody asks for the track"}
	for i, g := range guests {
		if refusals[i] == nil {
			allowed = true
			continue
		}
		last = refusals[i]
		a.Leave(g)
		g.end(errors.Join(ErrWithdrawn, last))
	}
	if allowed {
		return nil
	}
	return last
}
