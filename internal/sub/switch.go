package sub

import (
	"context"
	"math"
	"time"

	"sluice/internal/loc"
	"sluice/moqt"
	"sluice/moqt/session"
)

// How long the relay may take to answer the subscription to another rendition, and how often the one before is looked
// at, until all that is wanted of it has come.
const (
	changeTimeout = 3 * time.Second
	leaveInterval = 100 * time.Millisecond
)

// change subscribes to another rendition from its next group on. If that fails, the present one goes on.
func (e *playing) change(
	ctx context.Context, s *session.Subscription, r *laneReceiver, to *source,
) (*session.Subscription, *laneReceiver) {
	answer, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	next := &laneReceiver{e: e, lane: r.lane, source: to, first: math.MaxUint64, known: make(chan struct{})}
	defer close(next.known)
	n, largest, err := e.subscribe(answer, next, fromNextGroup, moqt.Parameters{}, 0)
	if err != nil {
		e.p.log.Warn("cannot change to another rendition", "track", e.name(to).Name, "error", err)
		r.refused(to, false)
		return s, r
	}
	next.setTimescale(n)
	if !next.follow(r, largest) {
		e.p.log.Warn("the renditions are not aligned: groups of the same time have different ids",
			"track", e.name(to).Name)
		n.Cancel(moqt.ResetCancelled)
		r.refused(to, true)
		return s, r
	}
	e.p.log.Info("changing to another rendition", "from", e.name(r.source).Name, "to", e.name(to).Name,
		"group", next.first)
	go e.p.try(func() { e.leave(ctx, s, r) })
	return n, next
}

// leave ends the subscription to a rendition when its last group has been played.
func (e *playing) leave(ctx context.Context, s *session.Subscription, r *laneReceiver) {
	defer s.Cancel(moqt.ResetCancelled)
	tick := time.NewTicker(leaveInterval)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-tick.C:
			r.update(func(s *sequencer) { done = s.passed(r.end - 1) })
		case <-s.Context().Done():
			return
		case <-ctx.Done():
			return
		case <-e.p.finished:
			return
		}
	}
}

// choose returns the rendition to play.
func (r *laneReceiver) choose(now time.Time, rtt time.Duration) (next *source) {
	p := r.e.p.player
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.end > 0 || r.lane.ladder == nil {
		return r.source
	}
	r.lane.ladder.chooser.Choose(now, rtt)
	return r.lane.ladder.wanted()
}

// refused tells the chooser that its choice cannot be played now, or never. A chooser of a later catalog has not chosen
// it.
func (r *laneReceiver) refused(to *source, never bool) {
	p := r.e.p.player
	p.mu.Lock()
	defer p.mu.Unlock()
	if la := r.lane.ladder; la.wanted() == to {
		la.chooser.Refused(time.Now(), never)
	}
}

// follow makes r take over from before, at a group of which nothing has come.
func (r *laneReceiver) follow(before *laneReceiver, largest *moqt.Location) bool {
	p := r.e.p.player
	p.mu.Lock()
	defer p.mu.Unlock()
	group, ok := r.lane.seq.continues(largest)
	if ok {
		r.first, before.end = group, group
		r.lane.subscribed = r.source
		r.lane.ladder.goOn(r.source)
	}
	return ok
}

// wants waits until the groups that r takes are known, and reports whether one is among them.
func (r *laneReceiver) wants(group uint64) bool {
	if r.known != nil {
		<-r.known
	}
	p := r.e.p.player
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.wantsLocked(group)
}

func (r *laneReceiver) wantsLocked(group uint64) bool {
	return group >= r.first && (r.end == 0 || group < r.end)
}

// setTimescale takes the timescale from the properties of the track.
func (r *laneReceiver) setTimescale(s *session.Subscription) {
	if f := r.source.frames; f != nil {
		r.update(func(*sequencer) { f.mux.SetTimescale(loc.Timescale(s.Properties())) })
	}
}
