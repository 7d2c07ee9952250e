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
	playing int // the rank of a rendition, by bitrate
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
	best := s.trace.rank(0)
	if best == 0 {
		return nil
	}
	l := &ladder{simulation: s, playing: best, changes: []ladderChange{{0, best}}, next: -1}
	var renditions []rendition.Rendition
	for track, bitrate := range slices.Backward(s.trace.bitrates) {
		renditions = append(renditions, rendition.Rendition{Bitrate: int(bitrate)})
		if track != 0 {
			s.tracks[track].until = 0
		}
	}
	l.chooser = rendition.NewChooser(&l.state, renditions, best)
	l.lookAgain()
	return l
}

// of returns the subscription to a rendition.
func (l *ladder) of(rank int) *subscription { return &l.tracks[l.trace.rank(rank)] }

// taken returns the rendition that the player takes a group of.
func (l *ladder) taken(group uint64) int {
	i := len(l.changes) - 1
	for l.changes[i].from > group {
		i--
	}
	return l.changes[i].rendition
}

// published notes that an object was published.
func (l *ladder) published(o *Object) {
	if !l.trace.isAudio(o) {
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
	for rank := range l.trace.bitrates {
		if s := l.of(rank); s.until > from {
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
