package sub

import (
	"container/heap"
	"math"
	"time"

	"sluice/moqt"
)

// item is an object of a track.
type item struct {
	location   moqt.Location
	subgroup   uint64
	priority   uint8
	properties moqt.Properties
	payload    []byte
	arrived    time.Time
	source     *source // the rendition that it is of
}

// size returns how much memory the item holds.
func (i item) size() int { return len(i.payload) + len(i.properties) + itemOverhead }

// sequencer puts the objects of one track in order. Objects arrive on the streams of the subscription and of a joining
// fetch and in datagrams, and twice if sessions change. The player's mutex guards it.
type sequencer struct {
	next    moqt.Location // the object to release next
	begun   bool
	groups  map[uint64]*incoming
	ended   bool // nothing more will arrive
	left    bool // nothing more is wanted
	marks   bool // the publisher marks the ends of groups
	apart   bool // the first object of a group may have a stream of its own
	bytes   int  // of objects that have not been released
	counted Counters
	came    time.Time // when something has come that was not too late
	older   *uint64   // an earlier group that has begun since

	fetching int // joining fetches that are under way, on several sessions
}

// maxGroups is the largest number of groups of a track at a time. Media needs far fewer.
const maxGroups = 1024

// Counters count the objects of a track.
type Counters struct {
	Objects, Bytes uint64 // released in order
	Lost           uint64 // objects that were skipped, as far as their number is known
	Gaps           uint64 // places where objects were skipped
	Late           uint64 // objects that arrived after they had been skipped or released
	Duplicates     uint64
}

// incoming is the part of a group that has arrived.
type incoming struct {
	objects  map[uint64]item
	ids      ids    // of objects
	end      uint64 // number of objects, math.MaxUint64 if unknown
	open     int    // streams that have not ended
	finished int    // streams that ended with FIN
	broken   bool   // a stream was reset
	source   *source
}

func newSequencer() *sequencer { return &sequencer{groups: map[uint64]*incoming{}} }

// start sets where playback starts, unless it has started.
func (s *sequencer) start(l moqt.Location) {
	if !s.begun {
		s.begun = true
		s.moveTo(l)
	}
}

// silence is how long nothing new has come when earlier groups are of a publisher that has started again.
const silence = 3 * time.Second

// fallsBack reports whether a group that begins is of a publisher that has started again with smaller ids: nothing new
// has come for a time, and this is the second earlier group.
func (s *sequencer) fallsBack(group uint64) bool {
	if !s.passed(group) || s.came.IsZero() || time.Since(s.came) <= silence {
		return false
	}
	before := s.older
	s.older = &group
	return before != nil && *before < group
}

// resume is called when a track is subscribed to again that is as far as a group, or such groups come after silence.
// If the publisher has started again with smaller group ids, as that shows, playback starts again, too.
func (s *sequencer) resume(group uint64) {
	if s.begun && group+1 < s.next.Group {
		s.begun, s.groups, s.bytes = false, map[uint64]*incoming{}, 0
	}
}

func (s *sequencer) group(id uint64) *incoming {
	g := s.groups[id]
	if g == nil {
		g = &incoming{objects: map[uint64]item{}, end: math.MaxUint64}
		if len(s.groups) < maxGroups {
			s.groups[id] = g
		}
	}
	return g
}

// add adds an object. It returns false if the object came twice or too late, or is of another rendition than the group
// that it belongs to, or nothing more is wanted.
func (s *sequencer) add(i item) bool {
	if s.left {
		return false
	}
	if s.begun && i.location.Less(s.next) {
		s.counted.Late++
		return false
	}
	g := s.group(i.location.Group)
	if s.groups[i.location.Group] != g || g.source != nil && g.source != i.source {
		return false
	}
	g.source = i.source
	if _, ok := g.objects[i.location.Object]; ok {
		s.counted.Duplicates++
		return false
	}
	g.objects[i.location.Object] = i
	heap.Push(&g.ids, i.location.Object)
	s.bytes += i.size()
	s.came, s.older = time.Now(), nil
	return true
}

// fetched is what a joining fetch has brought to a sequencer, in ascending order: all objects that exist.
type fetched struct{ last *moqt.Location }

// add adds an object. The first object of a group shows that the group before is complete.
func (f *fetched) add(s *sequencer, i item) {
	f.reach(s, i.location.Group)
	f.last = &i.location
	s.add(i)
}

// reach records that the fetch has brought all groups before one.
func (f *fetched) reach(s *sequencer, group uint64) {
	if l := f.last; l != nil && l.Group < group {
		s.endGroup(l.Group, l.Object+1, false)
	}
}

// take adds an object or a status of the subscription.
func (s *sequencer) take(status moqt.ObjectStatus, i item) {
	switch status {
	case moqt.StatusEndOfGroup:
		s.endGroup(i.location.Group, i.location.Object, true)
	case moqt.StatusEndOfTrack:
		s.endGroup(i.location.Group, i.location.Object, true)
		s.end()
	default:
		s.add(i)
	}
}

// openStream and closeStream count the subgroup streams of a group. fin is false if the stream was reset.
func (s *sequencer) openStream(group uint64) {
	if !s.passed(group) {
		s.group(group).open++
		s.came, s.older = time.Now(), nil
	}
}

func (s *sequencer) closeStream(group uint64, fin bool) {
	if s.passed(group) {
		return
	}
	g := s.groups[group]
	if g == nil {
		return
	}
	g.open = max(0, g.open-1)
	if fin {
		g.finished++
	} else {
		g.broken = true
	}
}

// forgetStreams is called when the streams so far say nothing about the ends of groups.
func (s *sequencer) forgetStreams() {
	for _, g := range s.groups {
		g.open, g.finished, g.broken = 0, 0, false
	}
}

func (s *sequencer) passed(group uint64) bool { return s.begun && group < s.next.Group }

// endGroup records that a group has no object with an id of n or more. marked is set if the publisher has marked the
// end.
func (s *sequencer) endGroup(group, n uint64, marked bool) {
	s.marks = s.marks || marked
	if !s.passed(group) {
		s.group(group).end = n
	}
}

// fetch says that a joining fetch is under way, for whose objects head waits, or that it has ended.
func (s *sequencer) fetch(pending bool) {
	if pending {
		s.fetching++
	} else {
		s.fetching--
	}
}

// end records that nothing more will arrive.
func (s *sequencer) end() { s.ended = true }

// leave ends the track at once: it forgets what has arrived, and does not take what still does.
func (s *sequencer) leave() {
	s.end()
	s.left, s.groups, s.bytes = true, map[uint64]*incoming{}, 0
}

// state is the state of the next object.
type state int

const (
	ready   state = iota // it has arrived
	waiting              // it has not arrived
	blocked              // it has not arrived, but later ones have
	over                 // there is none
)

// head returns the next object, or if that is missing the first later one.
func (s *sequencer) head() (item, state) {
	if !s.begun {
		first, ok := s.first()
		if !ok || s.fetching > 0 && !s.ended {
			return item{}, s.idle()
		}
		s.start(moqt.Location{Group: first.Group})
	}
	for {
		g := s.groups[s.next.Group]
		if g != nil {
			if i, ok := g.objects[s.next.Object]; ok {
				return i, ready
			}
			if s.next.Object >= g.end || s.unmarkedEnd(g) {
				if s.nextGroup() {
					continue
				}
			}
		}
		if l, more := s.first(); more && (s.fetching == 0 || s.ended) {
			return s.groups[l.Group].objects[l.Object], blocked
		}
		return item{}, s.idle()
	}
}

func (s *sequencer) idle() state {
	if s.ended {
		return over
	}
	return waiting
}

// unmarkedEnd guesses whether a group is complete if the publisher does not mark the ends of groups: all streams have
// ended with FIN, no object is missing, and no joining fetch is under way, which may bring more. If all that has come
// is a first object which may have a stream of its own, the other streams may still come, also after the next group has
// begun: key frames are the most urgent.
func (s *sequencer) unmarkedEnd(g *incoming) bool {
	if s.marks || s.fetching > 0 || s.apart && s.next.Object == 1 {
		return false
	}
	return g.open == 0 && g.finished > 0 && !g.broken && s.next.Object > 0 && len(g.ids) == 0
}

// nextGroup moves to the following group. It returns false if that group has not arrived.
func (s *sequencer) nextGroup() bool {
	if s.groups[s.next.Group+1] == nil {
		return false
	}
	s.moveTo(moqt.Location{Group: s.next.Group + 1})
	return true
}

// moveTo makes l the next location and forgets the groups and objects before it.
func (s *sequencer) moveTo(l moqt.Location) {
	for id, g := range s.groups {
		for len(g.ids) > 0 && (moqt.Location{Group: id, Object: g.ids[0]}).Less(l) {
			s.removeFirst(g)
		}
		if id < l.Group {
			delete(s.groups, id)
		}
	}
	s.next = l
}

// removeFirst removes the object with the least id of a group.
func (s *sequencer) removeFirst(g *incoming) {
	id := heap.Pop(&g.ids).(uint64)
	s.bytes -= g.objects[id].size()
	delete(g.objects, id)
}

// drop removes the object that head returned.
func (s *sequencer) drop(i item) {
	s.next = i.location.Next()
	s.removeFirst(s.groups[i.location.Group])
}

// pop removes the object that head returned, and counts it.
func (s *sequencer) pop(i item) {
	s.drop(i)
	s.counted.Objects++
	s.counted.Bytes += uint64(len(i.payload))
}

// skip moves to the first object that has arrived.
func (s *sequencer) skip() {
	l, ok := s.first()
	if !ok {
		return
	}
	g := s.groups[s.next.Group]
	lost := l.Object
	switch {
	case l.Group == s.next.Group:
		lost -= s.next.Object
	case g != nil && g.end != math.MaxUint64:
		lost += g.end - s.next.Object
	}
	// A group that ends without a mark leaves no gap before the next group.
	ended := s.next.Object > 0 && (g == nil || g.open == 0 && !g.broken)
	if lost > 0 || !ended || l.Group != s.next.Group+1 {
		s.counted.Gaps++
	} else if s.next.Object == 1 {
		s.apart = false // nothing else came: groups of one object are not waited for again
	}
	s.counted.Lost += lost
	s.moveTo(l)
}

// goOn does not wait any longer for objects before those that have come. It reports whether it has waited.
func (s *sequencer) goOn() bool {
	first, ok := s.first()
	if !ok || s.begun && !s.next.Less(first) {
		return false
	}
	if s.start(first); s.next.Less(first) {
		s.skip()
	}
	return true
}

// first returns the location of the first object that has arrived.
func (s *sequencer) first() (first moqt.Location, found bool) {
	for id, g := range s.groups {
		if len(g.ids) > 0 && (!found || id < first.Group) {
			first, found = moqt.Location{Group: id, Object: g.ids[0]}, true
		}
	}
	return first, found
}

// ids is a heap: its first id is the least. A publisher may send objects in any order, with gaps between them.
type ids []uint64

func (s ids) Len() int           { return len(s) }
func (s ids) Less(i, j int) bool { return s[i] < s[j] }
func (s ids) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *ids) Push(id any)       { *s = append(*s, id.(uint64)) }

func (s *ids) Pop() any {
	last := len(*s) - 1
	id := (*s)[last]
	*s = (*s)[:last]
	return id
}
