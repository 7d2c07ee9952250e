package sub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// layersTimeout is how long the first frame of another layer may take when a key frame has come.
const layersTimeout = time.Second

// errLayers is why a subscription to a track in layers ended if the track with whole groups goes on.
var errLayers = errors.New("no layers")

// layers tells whether the layers of video arrive, which have subgroups of their own. Some relays refuse more than one
// subgroup of a group, or drop it silently. The player's mutex guards it. nil: the track has whole groups.
type layers struct {
	arrive  bool          // an object of another layer than the key frames' has come
	timer   *time.Timer   // runs when a key frame has come; nil before
	missing chan struct{} // closed when they have not come in time
}

// lost returns a channel that is closed when the layers have not come in time.
func (l *layers) lost() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.missing
}

func (l *layers) arrivedLocked(subgroup uint64) {
	if l != nil && subgroup > 0 {
		l.arrive = true
	}
}

// streamEndedLocked is called when a whole subgroup has come.
func (r *laneReceiver) streamEndedLocked() {
	l := r.layers
	if l == nil || l.arrive || l.timer != nil {
		return
	}
	l.timer = time.AfterFunc(layersTimeout, func() {
		r.e.p.try(func() {
			r.update(func(*sequencer) {
				if !l.arrive {
					close(l.missing)
				}
			})
		})
	})
}

// unproven reports whether the track has layers of which none has come but the key frames'.
func (r *laneReceiver) unproven() bool {
	p := r.e.p.player
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.layers != nil && !r.layers.arrive
}

// name returns the track to subscribe to for a source: the one in layers, unless they cannot be had.
func (e *playing) name(s *source) moqt.FullTrackName {
	if e.p.whole.Load() {
		return e.p.cfg.fullName(s.entry)
	}
	return s.choice.name
}

// subscribe subscribes to the track of r, from where a filter says. If the track in layers is refused, it takes the one
// with whole groups.
func (e *playing) subscribe(
	ctx context.Context, r *laneReceiver, from moqt.Filter, p moqt.Parameters, wait time.Duration,
) (*session.Subscription, *moqt.Location, error) {
	m := request(e.name(r.source), from)
	p.Filter = m.Parameters.Filter
	m.Parameters = p
	r.update(func(*sequencer) {
		r.layers, r.replaced = nil, false
		if m.Track.Name != r.source.entry.Name {
			r.layers = &layers{missing: make(chan struct{})}
		}
	})
	s, largest, err := subscribe(ctx, e.p.cfg, e.link, m, wait, r)
	if r.layers != nil && lacksLayers(err) {
		_ = e.takeWhole(r, err)
		return e.subscribe(ctx, r, from, p, 0) // the publisher was waited for
	}
	return s, largest, err
}

// ended returns why a subscription of r ended.
func (e *playing) ended(r *laneReceiver, cause error) error {
	if lacksLayers(cause) && r.unproven() {
		return e.takeWhole(r, cause)
	}
	return cause
}

// takeWhole makes playback subscribe to tracks with whole groups from now on.
func (e *playing) takeWhole(r *laneReceiver, cause error) error {
	e.p.whole.Store(true)
	r.update(func(s *sequencer) {
		r.replaced = true
		s.forgetStreams()
	})
	e.p.log.Warn("the layers of video do not come, going on without", "track", r.source.choice.name.Name,
		"instead", r.source.entry.Name, "error", cause)
	return fmt.Errorf("%w: %w", errLayers, cause)
}

// lacksLayers reports whether a track has ended, or was refused, for a reason that another one may not have.
func lacksLayers(err error) bool {
	if done, ok := errors.AsType[*session.DoneError](err); ok {
		switch done.Status {
		case moqt.DoneTrackEnded, moqt.DoneSubscriptionEnded, moqt.DoneGoingAway:
			return false
		}
		return true
	}
	refused, ok := errors.AsType[*moqt.RequestError](err)
	return ok && refused.RetryInterval == 0 && refused.Code.Effective() != moqt.RequestTimeout
}
