package replay

import (
	"slices"
	"time"

	"sluice/internal/bench/playback"
	"sluice/internal/rendition"
)

// ladder has the renditions of a trace, and knows which one the player takes each group of.
type ladder struct {
	*simulation
	tracks  []int // indices in Trace.Tracks, by bitrate
	playing int   // index in tracks
	changes []ladderChange

	group uint64 // the latest that has begun
	// arrived is called for objects that the player takes; nil: nobody wants to know.
	arrived func(rendition int, o *Object, took time.Duration)
	// due is called when a player shows an object; nil: nobody wants to know.
	due func(index int)
}

// ladderChange is from which group on the player takes a rendition.
type ladderChange struct {
	from      uint64
	rendition int
}

// newLadder begins with the best rendition, which sluice pub lists first. It returns nil if there is nothing to choose.
func newLadder(s *simulation, rule rendition.Rule) *ladder {
	tracks := s.trace.renditions()
	if rule == "" || len(tracks) == 0 {
		return nil
	}
	best := len(tracks) - 1
	l := &ladder{simulation: s, tracks: tracks, playing: best, changes: []ladderChange{{0, best}}}
	var renditions []rendition.Rendition
	for i, t := range tracks {
		renditions = append(renditions, rendition.Rendition{Bitrate: s.trace.Tracks[t].Bitrate})
		if i != best {
			s.tracks[t].until = 0
		}
	}
	if rule == rendition.ByClient {
		newClientRule(l, renditions)
	} else {
		newRelayRule(l, renditions)
	}
	return l
}

// every does something again and again.
func (s *simulation) every(d time.Duration, do func()) {
	s.plan(s.clock.now.Add(d), func() {
		do()
		s.every(d, do)
	})
}

// of returns the subscription to a rendition.
func (l *ladder) of(rendition int) *subscription { return &l.simulation.tracks[l.tracks[rendition]] }

// change makes the player take a rendition from a group on.
func (l *ladder) change(to int, from uint64) {
	l.playing, l.changes = to, append(l.changes, ladderChange{from, to})
}

// taken returns the rendition that the player takes a group of.
func (l *ladder) taken(group uint64) int {
	i := len(l.changes) - 1
	for l.changes[i].from > group {
		i--
	}
	return l.changes[i].rendition
}

// rendition returns which rendition an object is of, and whether the player takes it. Other tracks are taken as they
// are.
func (l *ladder) rendition(o *Object) (rendition int, takes bool) {
	i := slices.Index(l.tracks, o.Track)
	return i, i < 0 || l.taken(o.Group) == i
}

// published notes that an object was published.
func (l *ladder) published(index int) {
	o := &l.trace.Objects[index]
	if !slices.Contains(l.tracks, o.Track) {
		return
	}
	if l.group = max(l.group, o.Group); l.due != nil {
		l.plan(l.clock.now.Add(playback.Playout), func() { l.due(index) })
	}
}

// complete notes that an object has arrived, and how long that took.
func (l *ladder) complete(o *Object, took time.Duration) {
	if i, takes := l.rendition(o); i >= 0 && takes && l.arrived != nil {
		l.arrived(i, o, took)
	}
}

// clientRule changes as sluice sub does: it subscribes to the next group of the other rendition, and ends the other
// subscription when it has all that it takes of it.
type clientRule struct {
	*ladder
	chooser  *rendition.Chooser
	meter    rendition.Meter
	newest   uint64 // the newest group with an object that has arrived
	changing bool
}

func newClientRule(l *ladder, renditions []rendition.Rendition) {
	r := &clientRule{ladder: l}
	r.chooser = rendition.NewChooser(&r.meter, renditions, l.playing)
	l.arrived, l.due = r.take, r.show
	l.every(rendition.Interval, r.choose)
}

func (r *clientRule) take(rendition int, o *Object, took time.Duration) {
	now := r.clock.Wall()
	r.newest = max(r.newest, o.Group)
	r.meter.Arrived(now, time.Duration(o.At), o.Size, took)
	r.chooser.Began(now, rendition)
}

// show notes an object that has not arrived when it is to be shown.
func (r *clientRule) show(index int) {
	if _, takes := r.rendition(&r.trace.Objects[index]); takes && r.receiver.arrivedAt[index] == 0 {
		r.meter.Skipped(r.clock.Wall(), 1)
	}
}

func (r *clientRule) choose() {
	if r.changing {
		return
	}
	if to := r.chooser.Choose(r.clock.Wall(), 2*r.path.delay(r.clock.now)); to != r.playing {
		r.changing = true
		r.back(func() { r.subscribe(to) })
	}
}

// subscribe has the relay handle the subscription. Its answer names the largest group.
func (r *clientRule) subscribe(to int) {
	largest := r.group
	s := r.of(to)
	s.renew(r.sender)
	s.from, s.until = largest+1, everyGroup
	r.plan(r.clock.now.Add(r.path.delay(r.clock.now)), func() {
		from, before := max(largest, r.newest)+1, r.playing
		r.change(to, from)
		r.leave(before, from)
	})
}

// leaveInterval is how often the client looks whether it has all that it takes of a rendition.
const leaveInterval = 100 * time.Millisecond

// leave ends the subscription to a rendition when all groups before one have arrived, or are too late.
func (r *clientRule) leave(rendition int, before uint64) {
	if !r.hasGroup(rendition, before-1) {
		r.plan(r.clock.now.Add(leaveInterval), func() { r.leave(rendition, before) })
		return
	}
	r.back(func() {
		r.of(rendition).stop()
		r.changing = false
	})
}

// hasGroup reports whether all objects of a group have arrived, or should have been shown.
func (r *clientRule) hasGroup(rendition int, group uint64) bool {
	for i, o := range r.trace.Objects {
		shown := begin.Add(time.Duration(o.At) + playback.Playout)
		missing := shown >= r.clock.now && r.receiver.arrivedAt[i] == 0
		if o.Track == r.tracks[rendition] && o.Group == group && missing {
			return false
		}
	}
	return true
}

// relayRule changes as the relay does: the begin of a group ends the other rendition.
type relayRule struct {
	*ladder
	chooser *rendition.Chooser
	state   rendition.Sender
	next    int // chosen, and served from the next look on; -1: none
	asked   time.Time
}

func newRelayRule(l *ladder, renditions []rendition.Rendition) {
	r := &relayRule{ladder: l, next: -1}
	r.chooser = rendition.NewChooser(&r.state, renditions, l.playing)
	l.every(rendition.Tick, r.look)
}

func (r *relayRule) look() {
	now := r.clock.Wall()
	if r.group >= r.changes[len(r.changes)-1].from {
		r.chooser.Began(now, r.playing)
	}
	s := r.of(r.playing).State()
	r.state.Look(now, rendition.Sent{
		Bytes: s.Sent, Window: s.Window, SRTT: s.SRTT, MinRTT: s.MinRTT, Lag: s.Lag,
		Dropping: s.Dropping, Flows: true,
	})
	switch {
	case r.next >= 0:
		r.serve()
	case now.Sub(r.asked) >= rendition.Interval:
		r.asked = now
		if to := r.chooser.Choose(now, s.MinRTT); to != r.playing {
			r.next = to
		}
	}
}

// serve serves the chosen rendition from the next group on.
func (r *relayRule) serve() {
	from := r.group + 1
	for i := range r.tracks {
		if s := r.of(i); s.until > from {
			s.until = from
		}
	}
	if s := r.of(r.next); s.until < from {
		s.from, s.until = from, everyGroup
	} else {
		s.until = everyGroup
	}
	r.change(r.next, from)
	r.next = -1
}
