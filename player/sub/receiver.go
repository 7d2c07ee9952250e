package sub

import (
	"errors"
	"math"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/loc"
)

// laneReceiver passes the objects of a subscription on to the player.
type laneReceiver struct {
	e        *playing
	lane     *lane
	source   *source
	layers   *layers
	first    *arrival
	replaced bool // another track goes on: streams end early
}

func (r *laneReceiver) update(f func(*sequencer)) {
	_ = r.e.p.player.update(r.e.p.ctx, r.lane, f) // fails only if playback is over
}

// beginLocked is called before something of a group is taken.
func (r *laneReceiver) beginLocked(s *sequencer, group uint64) {
	if r.first.comes(group) || s.fallsBack(group) {
		s.resume(group)
	}
}

// HandleSubgroup implements [session.Receiver].
func (r *laneReceiver) HandleSubgroup(g *session.Subgroup) {
	r.e.p.try(func() { r.readSubgroup(g) })
}

func (r *laneReceiver) readSubgroup(g *session.Subgroup) {
	group, last := g.Header.GroupID, uint64(math.MaxUint64)
	r.update(func(s *sequencer) {
		r.beginLocked(s, group)
		s.openStream(group)
	})
	err := readSubgroup(g, r.e.p.cfg.Memory, func(h moqt.ObjectHeader, i item) {
		last, i.source = h.ObjectID, r.source
		r.update(func(s *sequencer) {
			r.layers.arrivedLocked(i.subgroup)
			s.take(h.Status, i)
		})
	})
	r.update(func(s *sequencer) {
		if over := r.e.p.player.limited; err != nil && !over { // at a limit, this end stops reading
			r.lane.resets++
		} else if err == nil && g.Header.EndOfGroup && last != math.MaxUint64 {
			s.endGroup(group, last+1, true)
		}
		if !r.replaced {
			s.closeStream(group, err == nil)
		}
		if err == nil {
			r.streamEndedLocked()
		}
	})
	if errors.Is(err, errMemory) {
		r.e.p.ranOut()
	}
	closeOnViolation(g.Subscription.Session(), err)
	if _, malformed := errors.AsType[*moqt.MalformedTrackError](err); malformed || errors.Is(err, errObjectTooLarge) {
		r.e.p.log.Warn("malformed track", "track", r.lane.name, "err", err)
		g.Subscription.Cancel(moqt.ResetMalformedTrack)
	}
}

// HandleDatagram implements [session.Receiver]. It must not block: datagrams are dropped while too much is buffered.
func (r *laneReceiver) HandleDatagram(o *moqt.ObjectDatagram) {
	r.e.p.try(func() { r.takeDatagram(o) })
}

func (r *laneReceiver) takeDatagram(o *moqt.ObjectDatagram) {
	r.e.p.player.offer(r.lane, func(s *sequencer) {
		r.beginLocked(s, o.Location.Group)
		s.take(o.Status, item{
			location: o.Location, priority: o.Priority, properties: o.Properties, payload: o.Payload,
			arrived: time.Now(), source: r.source,
		})
		if o.EndOfGroup {
			s.endGroup(o.Location.Group, o.Location.Object+1, true)
		}
	})
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

// rendition says which set a subscription belongs to: each lane is one.
func (r *laneReceiver) rendition() *moqt.Rendition {
	set := slices.Index(r.e.p.player.lanes, r.lane)
	t := r.source.entry
	return &moqt.Rendition{
		Set: uint64(set), Bitrate: uint64(t.Bitrate), Width: uint64(max(t.Width, 0)), Height: uint64(max(t.Height, 0)),
	}
}

// HandleState implements [session.StateReceiver].
func (r *laneReceiver) HandleState(p moqt.Parameters) {
	if p.Forward != nil && *p.Forward {
		r.e.p.log.Info("the relay changes to another rendition", "to", r.e.name(r.source).Name)
	}
}

// setTimescale takes the timescale from the properties of the track.
func (r *laneReceiver) setTimescale(s *session.Subscription) {
	if f := r.source.frames; f != nil {
		r.update(func(*sequencer) { f.mux.SetTimescale(loc.Timescale(s.Properties())) })
	}
}
