package track

import (
	"cmp"
	"math"
	"slices"
	"time"
	"unsafe"

	"sluice/moqt"
)

// Segment is a run of objects of one subgroup in one log, such as one upstream stream delivered. A subgroup is one segment unless its
// stream was reset and objects that followed came on another.
type Segment struct {
	Log             *Log
	Group, Subgroup uint64
	Priority        uint8 // Publisher Priority

	First         uint64 // id of the first object
	Start         int64  // offset of its Object ID Delta
	FirstObject   bool   // First is the first object ever published in the subgroup (FIRST_OBJECT, draft §11.4.2)
	EndOfGroup    bool   // the subgroup contains the largest object of the group (END_OF_GROUP)
	HasProperties bool   // each object has the Properties field (PROPERTIES)

	// Owner is that of the Source whose stream's bytes the log holds, at their offsets; nil if the log was put together from objects.
	Owner any

	fetched bool // objects come from FETCH: subscribers were not sent them
}

// Datagram is an object with forwarding preference Datagram.
type Datagram struct {
	Group, ID  uint64
	Priority   uint8
	Status     moqt.ObjectStatus
	EndOfGroup bool // no object with a larger id exists in the group
	Properties []byte
	Payload    []byte
	Received   time.Time

	fetched bool
}

const (
	groupSize    = int64(unsafe.Sizeof(group{}))
	subgroupSize = int64(unsafe.Sizeof(subgroup{}))
	segmentSize  = int64(unsafe.Sizeof(Segment{}) + unsafe.Sizeof(Log{}))
	datagramSize = int64(unsafe.Sizeof(Datagram{}))
	spanSize     = int64(unsafe.Sizeof(span{}))
	pointerSize  = int64(unsafe.Sizeof(uintptr(0)))
)

// group is guarded by the track's mu.
type group struct {
	id        uint64
	track     *Track
	subgroups []*subgroup // by id
	segments  []*Segment  // by First
	datagrams []*Datagram // by ID

	seen   ranges // ids of objects that came on subscriptions
	gaps   ranges // ids that Prior Object ID Gap says do not exist
	absent ranges // all ids known not to exist

	limit       uint64 // if ended: the smallest id of which it is known that neither it nor a larger one exists
	ended       bool
	groupGap    uint64 // Prior Group ID Gap of its objects
	hasGroupGap bool

	created, touched time.Time // when the first and the latest object came
	sources          int       // streams in arrival
	evicted          bool      // bytes are gone, what is known remains for the sake of de-duplication
	counted          int64     // bytes of this group counted in the cache's Memory, logs' chunks and indexes not included
	forgotten        bool      // it is not in the cache any more; streams in arrival may still refer to it
	slot             int       // in Cache.groups; guarded by Cache.mu
}

// subgroup is what is known of a subgroup beyond its objects.
type subgroup struct {
	id       uint64
	priority uint8
	last     uint64 // id of the last object, if finished
	finished bool
	merge    merge // has a lock of its own
}

// place is where an object is: in a segment or a datagram.
type place struct {
	segment  *Segment
	object   Object
	datagram *Datagram
}

func (p place) id() uint64 {
	if p.datagram != nil {
		return p.datagram.ID
	}
	return p.object.ID
}

func (g *group) subgroup(id uint64) *subgroup {
	if i, ok := g.searchSubgroup(id); ok {
		return g.subgroups[i]
	}
	return nil
}

func (g *group) searchSubgroup(id uint64) (int, bool) {
	return slices.BinarySearchFunc(g.subgroups, id, func(s *subgroup, id uint64) int { return cmp.Compare(s.id, id) })
}

func (g *group) ensureSubgroup(id uint64, priority uint8) *subgroup {
	i, ok := g.searchSubgroup(id)
	if !ok {
		g.subgroups = slices.Insert(g.subgroups, i, &subgroup{id: id, priority: priority})
		g.recount()
	}
	return g.subgroups[i]
}

func (g *group) addSegment(s *Segment) {
	i, _ := slices.BinarySearchFunc(g.segments, s.First, func(s *Segment, id uint64) int { return cmp.Compare(s.First, id) })
	g.segments = slices.Insert(g.segments, i, s)
	g.recount()
}

func (g *group) addDatagram(d *Datagram) {
	i, _ := slices.BinarySearchFunc(g.datagrams, d.ID, func(d *Datagram, id uint64) int { return cmp.Compare(d.ID, id) })
	g.datagrams = slices.Insert(g.datagrams, i, d)
	g.recount()
	g.addCount(datagramSize + int64(cap(d.Properties)) + int64(cap(d.Payload)))
}

// next returns the usable object with the smallest id that is at least id.
func (g *group) next(id uint64, usable func(place) bool) (found place, ok bool) {
	for _, d := range g.datagrams[g.searchDatagram(id):] {
		if p := (place{datagram: d}); usable(p) {
			found, ok = p, true
			break
		}
	}
	for _, s := range g.segments {
		if ok && s.First >= found.id() {
			break
		}
		for o, more := s.Log.Seek(id); more && !(ok && o.ID >= found.id()); o, more = s.Log.Seek(o.ID + 1) {
			if p := (place{segment: s, object: o}); usable(p) {
				found, ok = p, true
				break
			}
			if o.ID == math.MaxUint64 {
				break
			}
		}
	}
	return found, ok
}

func (g *group) searchDatagram(id uint64) int {
	i, _ := slices.BinarySearchFunc(g.datagrams, id, func(d *Datagram, id uint64) int { return cmp.Compare(d.ID, id) })
	return i
}

// find returns where the object id is held, preferring what subscribers were sent and what is or will be complete.
func (g *group) find(id uint64) (place, bool) {
	for _, usable := range [...]func(place) bool{
		func(p place) bool { return p.sent() && !p.truncated() },
		place.sent,
		func(place) bool { return true },
	} {
		if p, ok := g.next(id, usable); ok && p.id() == id {
			return p, true
		}
	}
	return place{}, false
}

// sent reports whether the object came on a subscription.
func (p place) sent() bool {
	return p.datagram != nil && !p.datagram.fetched || p.segment != nil && !p.segment.fetched
}

// complete reports whether all of the object has come.
func (p place) complete() bool {
	return p.datagram != nil || p.object.End <= p.segment.Log.End()
}

// truncated reports whether the end of the object will never come.
func (p place) truncated() bool {
	if p.datagram != nil {
		return false
	}
	state, _ := p.segment.Log.State()
	return state == Reset && !p.complete()
}

// pinned reports whether a reader or a writer uses the group's logs.
func (g *group) pinned() bool {
	return g.sources > 0 || slices.ContainsFunc(g.segments, func(s *Segment) bool { return s.Log.Pinned() })
}

// evict releases the objects and keeps what is known about them.
func (g *group) evict() {
	g.discard(math.MaxInt64)
	for _, d := range g.datagrams {
		g.addCount(-datagramSize - int64(cap(d.Properties)) - int64(cap(d.Payload)))
	}
	g.segments, g.datagrams = nil, nil
	g.evicted = true
	g.recount()
}

func (g *group) discard(end int64) {
	for _, s := range g.segments {
		s.Log.Discard(end)
	}
}

// expire releases the objects that were received before the given time, as far as nobody reads them.
func (g *group) expire(before time.Time) {
	for _, s := range g.segments {
		s.Log.expire(before)
	}
}

// recount brings the count of the index's own memory up to date.
func (g *group) recount() {
	if g.forgotten {
		return
	}
	n := groupSize + int64(len(g.subgroups))*subgroupSize + int64(len(g.segments))*segmentSize
	n += int64(cap(g.subgroups)+cap(g.segments)+cap(g.datagrams)) * pointerSize
	n += int64(cap(g.seen)+cap(g.gaps)+cap(g.absent)) * spanSize
	g.track.cache.mem.add(n - g.counted)
	g.counted = n
}

func (g *group) addCount(n int64) { g.track.cache.mem.add(n) }
