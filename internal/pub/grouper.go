package pub

import (
	"time"

	"sluice/internal/cmaf"
)

// audioGroup is how long groups are if no video track gives the rhythm.
const audioGroup = time.Second

// grouper decides where groups start. Groups of a video track start at its key frames; those of all other tracks start
// with their first chunk after a key frame of the first video track, and have that group's id, so that groups of one id
// belong together.
type grouper struct {
	init   *cmaf.Init
	lead   uint32            // the track that gives the rhythm
	group  map[uint32]uint64 // current group of each track that has one
	next   uint64            // id of the next group of lead
	opened time.Duration     // media time at which the group of lead started
}

func newGrouper(in *cmaf.Init, first uint64) *grouper {
	g := &grouper{init: in, group: map[uint32]uint64{}, next: first, lead: in.Tracks[0].ID}
	for _, t := range in.Tracks {
		if t.Kind == cmaf.Video {
			g.lead = t.ID
			break
		}
	}
	return g
}

// place returns the group of a chunk and whether the chunk starts it. ok is false if the chunk cannot be decoded, since
// the stream does not start with a key frame.
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

// leading is the id of the group that lead is in, or will start with.
func (g *grouper) leading() uint64 {
	if id, ok := g.group[g.lead]; ok {
		return id
	}
	return g.next
}
