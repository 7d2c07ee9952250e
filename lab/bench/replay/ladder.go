package replay

import (
	"slices"
	"time"

	"sluice/internal/rendition"
)

// ladder has the renditions of a trace, chooses among them as the relay does, and knows which one each group comes of:
// the begin of a group ends the other rendition.
type ladder struct {
	*simulation
	tracks  []int // indices in Trace.Tracks, by bitrate
	playing int   // index in tracks
	changes []ladderChange
	group   uint64 // the latest that has begun

	chooser *rendition.Chooser
	state   rendition.Sender
	next    int // chosen, and served from the next look on; -1: none
	asked   time.Time
}

// ladderChange is from which group on a rendition is served.
type ladderChange struct {
	from      uint64
	rendition int
}

// newLadder begins with the best rendition, which sluice pub lists first. It returns nil if there is nothing to choose.
func newLadder(s *simulation) *ladder {
	tracks := s.trace.renditions()
	if len(tracks) == 0 {
		return nil
	}
	best := len(tracks) - 1
	l := &ladder{simulation: s, tracks: tracks, playing: best, changes: []ladderChange{{0, best}}, next: -1}
	var renditions []rendition.Rendition
	for i, t := range tracks {
		renditions = append(renditions, rendition.Rendition{Bitrate: s.trace.Tracks[t].Bitrate})
		if i != best {
			s.tracks[t].until = 0
		}
	}
	l.chooser = rendition.NewChooser(&l.state, renditions, best)
	l.lookAgain()
	return l
}

// of returns the subscription to a rendition.
func (l *ladder) of(rendition int) *subscription { return &l.simulation.tracks[l.tracks[rendition]] }

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
	if o := &l.trace.Objects[index]; slices.Contains(l.tracks, o.Track) {
		l.group = max(l.group, o.Group)
	}
}

func (l *ladder) lookAgain() {
	l.plan(l.clock.now.Add(rendition.Tick), func() {
		l.look()
		l.lookAgain()
	})
}

func (l *ladder) look() {
	now := l.clock.Wall()
	if l.group >= l.changes[len(l.changes)-1].from {
		l.chooser.Began(now, l.playing)
	}
	s := l.of(l.playing).State()
	l.state.Look(now, rendition.Sent{
		Bytes: s.Sent, Window: s.Window, SRTT: s.SRTT, MinRTT: s.MinRTT, Longest: s.Longest,
		Lag: s.Lag, Dropping: s.Dropping, Flows: true,
	})
	switch {
	case l.next >= 0:
		l.serve()
	case now.Sub(l.asked) >= rendition.Interval:
		l.asked = now
		if to := l.chooser.Choose(now, s.MinRTT); to != l.playing {
			l.next = to
		}
	}
}

// serve serves the chosen rendition from the next group on.
func (l *ladder) serve() {
	from := l.group + 1
	for i := range l.tracks {
		if s := l.of(i); s.until > from {
			s.until = from
		}
	}
	if s := l.of(l.next); s.until < from {
		s.from, s.until = from, everyGroup
	} else {
		s.until = everyGroup
	}
	l.playing, l.changes, l.next = l.next, append(l.changes, ladderChange{from, l.next}), -1
}
