package pub

import (
	"time"

	"sluice/player/cmaf"
)

// audioGroup is the length of groups without a video track.
const audioGroup = time.Second

// grouper decides where groups start. Groups of a video track start at its key frames. Groups of any other track start
// with the first chunk after a key frame of the first video track, and have the id of that track's group: groups with
// the same id cover the same time.
//
// Alternatives of the first video track start their groups with its groups, too, at key frames of their own.
type grouper struct {
	alternatives map[uint32]int // alternate groups by track
	stray        bool           // an alternative does not start its group when lead does
	reported     bool
	init         *cmaf.Init
	lead         uint32            // the first video track, or else the first track
	group        map[uint32]uint64 // current group of each track that has one
	next         uint64            // id of the next group of lead
	opened       time.Duration     // media time at which the group of lead started
}

// apart is by how much groups that start together may differ: less than a frame.
const apart = 10 * time.Millisecond

func newGrouper(in *cmaf.Init, alternatives map[uint32]int, first uint64) *grouper {
	g := &grouper{init: in, alternatives: alternatives, group: map[uint32]uint64{}, next: first, lead: in.Tracks[0].ID}
	for _, t := range in.Tracks {
		if t.Kind == cmaf.Video {
			g.lead = t.ID
			break
		}
	}
	return g
}

// place returns the group of a chunk and whether the chunk starts it. ok is false if the chunk comes before the first
// key frame, without which it cannot be decoded.
func (g *grouper) place(c cmaf.Chunk) (group uint64, starts, ok bool) {
	t := g.init.Track(c.Track)
	group, begun := g.group[c.Track]
	switch {
	case c.Track == g.lead:
		at := t.Time(c.DecodeTime)
		starts = c.Sync && (!begun || t.Kind == cmaf.Video || at >= g.opened+audioGroup || at < g.opened)
		if starts {
			group, g.opened = g.next, at
			g.next++
		}
	case t.Kind == cmaf.Video && g.alternatives[c.Track] > 0:
		starts = c.Sync && (!begun || group < g.leading())
		if starts {
			group = g.leading()
			g.check(t.Time(c.DecodeTime))
		}
	case t.Kind == cmaf.Video:
		starts = c.Sync
		if starts && begun {
			group++
		} else if starts {
			group = g.leading()
		}
	default:
		starts = !begun || group < g.leading()
		group = g.leading()
	}
	if starts {
		g.group[c.Track] = group
	}
	return group, starts, begun || starts
}

// check notes whether a group of an alternative starts apart from the group of lead.
func (g *grouper) check(at time.Duration) {
	if _, begun := g.group[g.lead]; begun && (at-g.opened).Abs() > apart {
		g.stray = true
	}
}

// strayed reports once that an alternative is not aligned.
func (g *grouper) strayed() bool {
	first := g.stray && !g.reported
	g.reported = g.reported || first
	return first
}

// leading returns the id of lead's current group, or of its first group.
func (g *grouper) leading() uint64 {
	if id, ok := g.group[g.lead]; ok {
		return id
	}
	return g.next
}
