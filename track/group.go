package track

import (
	"cmp"
	"container/list"
	"math"
	"slices"
	"time"
	"unsafe"

	"sluice/moqt"
)

const (
	groupSize    = int64(unsafe.Sizeof(group{}) + unsafe.Sizeof(list.Element{}))
	subgroupSize = int64(unsafe.Sizeof(subgroup{}))
	segmentSize  = int64(unsafe.Sizeof(Segment{}) + unsafe.Sizeof(Log{}))
	derivedSize  = segmentSize + int64(unsafe.Sizeof(derived{}))
	datagramSize = int64(unsafe.Sizeof(Datagram{}))
	spanSize     = int64(unsafe.Sizeof(span{}))
)

// group holds the objects of one group and the facts about it. All methods but dropAhead expect Track.mu to be
// held.
type group struct {
	id        uint64
	track     *Track
	subgroups subgroups
	held

	seen    ranges // ids of objects that came on subscriptions
	gaps    ranges // ids that Prior Object ID Gap says do not exist
	absent  ranges // all ids known not to exist
	settled uint64 // smaller ids count as seen: there were too many runs of them, see settle

	limit       uint64 // if ended: no object with this id or a larger one exists
	ended       bool
	groupGap    uint64 // Prior Group ID Gap of its objects
	hasGroupGap bool

	touched time.Time     // when the latest object came
	sources int           // streams in arrival
	evicted bool          // its bytes are released; the rest remains, to recognize duplicates
	counted int64         // bytes of this group in the cache's Memory, without logs and datagrams
	listed  *list.Element // in Cache.groups; nil when it is forgotten, but streams in arrival may still refer to it
}

func (g *group) ensureSubgroup(id uint64, priority uint8) *subgroup {
	if s := g.subgroups.find(id); s != nil {
		return s
	}
	if n := len(g.subgroups); n >= maxSubgroups {
		g.track.cache.trims.Add(1)
		g.subgroups.forget(n / 2)
	}
	i, _ := g.subgroups.search(id)
	g.subgroups = slices.Insert(g.subgroups, i, &subgroup{id: id, priority: priority})
	g.recount()
	return g.subgroups[i]
}

func (g *group) addSegment(s *Segment) {
	if n := len(g.segments); n >= maxSegments {
		g.track.cache.trims.Add(1)
		g.dropSegments(n / 2)
	}
	i, _ := slices.BinarySearchFunc(g.segments, s.First, func(s *Segment, id uint64) int {
		return cmp.Compare(s.First, id)
	})
	g.segments = slices.Insert(g.segments, i, s)
	g.recount()
}

// dropSegments releases up to n segments that nobody reads or writes, the lowest ones first.
func (g *group) dropSegments(n int) {
	g.segments = slices.DeleteFunc(g.segments, func(s *Segment) bool {
		if n == 0 || s.Log.Pinned() {
			return false
		}
		n--
		s.drop()
		return true
	})
	g.recount()
}

func (g *group) addDatagram(d *Datagram) {
	if n := len(g.datagrams); n >= maxDatagrams {
		g.track.cache.trims.Add(1)
		g.dropDatagrams(n / 2)
	}
	g.datagrams = slices.Insert(g.datagrams, g.searchDatagram(d.ID), d)
	g.recount()
	g.addCount(d.memory())
}

// dropDatagrams releases the n datagrams with the lowest ids.
func (g *group) dropDatagrams(n int) {
	for _, d := range g.datagrams[:n] {
		g.addCount(-d.memory())
	}
	g.datagrams = slices.Delete(g.datagrams, 0, n)
	if len(g.datagrams) == 0 {
		g.datagrams = nil
	}
	g.recount()
}

// at returns the longest stretch of the group that starts at r.Start: see Track.At.
func (g *group) at(r moqt.Range, notBefore time.Time, w Waker) Stretch {
	start, end := r.Start.Object, uint64(math.MaxUint64)
	if r.End.Group == g.id {
		end = r.End.Object
	}
	s := Stretch{Existence: Unknown, Range: moqt.Range{Start: r.Start}}
	if run, ok := g.absent.from(start); ok {
		if run.lo <= start {
			s.Existence = Absent
			s.Range.End = moqt.Location{Group: g.id, Object: min(run.hi, end)}
			return s
		}
		end = min(end, run.lo-1)
	}
	p, ok := g.next(start, func(p place) bool {
		return p.id() > end || p.isServable(notBefore) && s.open(p, w)
	})
	switch {
	case ok && p.id() == start:
		s.Existence, end = Present, start
	case ok:
		s.Close()
		end = min(end, p.id()-1)
	}
	s.Range.End = moqt.Location{Group: g.id, Object: end}
	return s
}

// end records that no object with an id of at least limit exists.
func (g *group) end(limit uint64) {
	if !g.ended || limit < g.limit {
		g.limit = limit
	}
	g.ended = true
	g.absent = g.absent.add(span{limit, math.MaxUint64})
	g.recount()
}

// checkLimit returns an error if an object with an id of at least limit came.
func (g *group) checkLimit(limit uint64) error {
	if g.ended && g.limit == limit {
		return nil
	}
	if last, ok := g.seen.max(); ok && last >= limit {
		return malformed("group %d ends before %d, but object %d came", g.id, limit, last)
	}
	return nil
}

// isMark reports whether an object that came only marks the end of the group, or of the track. FETCH brings no marks. A
// subgroup that a relay has fetched ends before its mark, or the relay has guessed in which subgroup that is: see
// EndMark. Neither contradicts the publisher.
func (g *group) isMark(id uint64) bool { return g.ended && id == g.limit }

// finishSubgroup records that last is the last object of the subgroup and, with END_OF_GROUP, of the group.
func (g *group) finishSubgroup(sub *subgroup, last Object, endOfGroup bool) error {
	if sub.finished && sub.last != last.ID && !g.isMark(sub.last) && !g.isMark(last.ID) {
		return malformed("subgroup %d of group %d ended after objects %d and %d", sub.id, g.id, sub.last, last.ID)
	}
	for _, s := range g.segments {
		if s.Subgroup != sub.id {
			continue
		}
		if o, ok := s.Log.Last(); ok && o.ID > last.ID {
			if next, _ := s.Log.Seek(last.ID + 1); !g.isMark(next.ID) {
				return malformed("subgroup %d of group %d ended after object %d, but object %d came",
					sub.id, g.id, last.ID, o.ID)
			}
		}
	}
	sub.finished, sub.last = true, max(sub.last, last.ID)
	if !endOfGroup || last.ID == math.MaxUint64 {
		return nil
	}
	limit := last.ID + 1
	if last.Status != moqt.StatusNormal {
		limit = last.ID
	}
	if err := g.checkLimit(limit); err != nil {
		return err
	}
	g.end(limit)
	if last.Status == moqt.StatusNormal {
		g.track.index.endMark = &EndMark{Subgroup: sub.id}
	}
	return nil
}

// mayArrive is Track.MayArrive for an object of the group.
func (g *group) mayArrive(id uint64, whole bool) bool {
	if whole && g.sources > 0 && len(g.seen) > 0 && id < g.seen[0].lo {
		return true
	}
	return slices.ContainsFunc(g.subgroups, func(s *subgroup) bool {
		return s.sources > 0 && !(s.finished && s.last < id) && !g.hasPassed(s.id, id)
	})
}

// isPinned reports whether a reader or a writer uses the group's logs.
func (g *group) isPinned() bool {
	return g.sources > 0 || slices.ContainsFunc(g.segments, func(s *Segment) bool { return s.Log.Pinned() })
}

// evict releases the objects and keeps the facts about them.
func (g *group) evict() {
	for _, s := range g.segments {
		s.drop()
	}
	g.segments = nil
	g.dropDatagrams(len(g.datagrams))
	g.evicted = true
}

func (g *group) evictUnpinned() {
	if !g.evicted && !g.isPinned() {
		g.evict()
	}
}

// dropAhead refuses the streams of the group that are ahead of others. It takes Track.mu itself, because the locks of
// merges come before it.
func (g *group) dropAhead() {
	if g.track.ahead.Load() == 0 {
		return
	}
	g.track.mu.Lock()
	subgroups := slices.Clone(g.subgroups)
	g.track.mu.Unlock()
	for _, s := range subgroups {
		s.merge.dropAhead()
	}
}

// discardUnread releases all objects that no reader needs, also of a group that is being written.
func (g *group) discardUnread() {
	for _, s := range g.segments {
		s.discardUnread()
	}
	g.dropSegments(len(g.segments))
	g.dropDatagrams(len(g.datagrams))
}

// hasSeen reports whether the object came on a subscription.
func (g *group) hasSeen(id uint64) bool { return id < g.settled || g.seen.contains(id) }

// settle limits each set of ids to a number of runs. It forgets the lowest ones: ids below the runs that remain count
// as seen, so that an object which came is not forwarded again. One that did not come is not forwarded any more.
func (g *group) settle(limit int) {
	if len(g.seen) > limit {
		g.track.cache.trims.Add(1)
		g.seen = g.seen.keep(limit)
		g.settled = g.seen[0].lo
	}
	g.gaps, g.absent = g.gaps.keep(limit), g.absent.keep(limit)
	g.recount()
}

// settleMost limits the sets of ids of the group and of the track to few runs.
func (g *group) settleMost() {
	g.settle(keptRuns)
	g.track.index.keep(keptRuns)
}

// forgetEvicted drops an evicted group, if it is the lowest or there are many: a group between others would count as
// missing (see Track.Interrupted), and come again. Its duplicates are not recognized any more.
func (g *group) forgetEvicted() {
	all := g.track.index.groups
	if g.evicted && g.listed != nil && !g.isPinned() && (g == all[0] || len(all) > keptGroups) {
		g.track.index.drop(g)
	}
}

// expire releases the objects that were received before the given time and that no reader needs.
func (g *group) expire(before time.Time) {
	for _, s := range g.segments {
		s.expire(before)
	}
}

// recount brings the count of the memory that the group's own structures occupy up to date.
func (g *group) recount() {
	if g.listed == nil {
		return
	}
	n := groupSize + int64(len(g.subgroups))*subgroupSize + int64(len(g.segments))*segmentSize
	n += int64(cap(g.seen)+cap(g.gaps)+cap(g.absent)) * spanSize
	g.addCount(n - g.counted)
	g.counted = n
}

func (g *group) addCount(n int64) { g.track.cache.mem.add(n) }
