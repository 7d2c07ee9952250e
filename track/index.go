package track

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sluice/moqt"
)

// index knows which objects of a track are held, and which do not exist. All methods expect Track.mu to
// be held.
type index struct {
	track    *Track
	groups   []*group       // by id
	largest  mark           // Largest Object: received, or told by publishers
	received mark           // the largest object that came on a subscription
	limit    *moqt.Location // no object at this location or after it exists
	endMark  *EndMark       // see Track.EndMark
	gaps     ranges         // group ids that Prior Group ID Gap says do not exist
	absent   ranges         // all group ids known not to exist
	counted  int64          // bytes of gaps and absent in the cache's Memory
}

// mark is a location that may be unset.
type mark struct {
	at  moqt.Location
	set bool
}

func (m *mark) raise(l moqt.Location) {
	if !m.set || m.at.Less(l) {
		m.at, m.set = l, true
	}
}

// location returns a copy of the location, nil if it is unset.
func (m mark) location() *moqt.Location {
	if !m.set {
		return nil
	}
	return &m.at
}

// largestWhole is LargestWhole.
func (x *index) largestWhole() (m mark) {
	if x.largest != x.received || len(x.groups) == 0 {
		return x.largest
	}
	for _, g := range slices.Backward(x.groups) {
		for _, run := range slices.Backward(g.seen) {
			for id := run.hi; ; id-- {
				if p, held := g.find(id); !held || p.isComplete() {
					return mark{moqt.Location{Group: g.id, Object: id}, true}
				}
				if id == run.lo {
					break
				}
			}
		}
	}
	return m
}

// search returns where in groups the id is, or would be.
func (x *index) search(id uint64) (int, bool) {
	return slices.BinarySearchFunc(x.groups, id, func(g *group, id uint64) int { return cmp.Compare(g.id, id) })
}

func (x *index) group(id uint64) *group {
	if i, ok := x.search(id); ok {
		return x.groups[i]
	}
	return nil
}

func (x *index) ensureGroup(id uint64) *group {
	if g := x.group(id); g != nil {
		return g
	}
	if len(x.groups) >= maxGroups {
		x.track.cache.trims.Add(1)
		x.dropLowest(maxGroups / 8)
	}
	g := &group{id: id, track: x.track, touched: x.track.cache.now()}
	i, _ := x.search(id)
	x.groups = slices.Insert(x.groups, i, g)
	x.track.cache.remember(g)
	g.recount()
	return g
}

// interrupted is Track.Interrupted.
func (x *index) interrupted(first, last uint64, since time.Time) uint64 {
	from, _ := x.search(first)
	for i := max(from-1, 0); i < len(x.groups) && x.groups[i].id < last; i++ {
		g, next := x.groups[i], last
		if i+1 < len(x.groups) {
			next = min(x.groups[i+1].id, last)
		}
		if i >= from && (g.endedEarly() || !since.IsZero() && !g.touched.Before(since)) {
			return g.id
		}
		if !g.evicted && !x.absent.containsAll(span{g.id + 1, next - 1}) {
			return max(g.id+1, first)
		}
	}
	return max(first, last)
}

// overtaken is how long an object, whose packets were lost, may come behind a later one.
const overtaken = 2 * time.Second

// isOvertaken reports whether an object is missing before one that came a moment ago, in its group or, if nothing has
// come there, in the next one. In a group with datagrams, most that are missing are lost ones.
func (x *index) isOvertaken(l moqt.Location) bool {
	i, found := x.search(l.Group)
	if i == len(x.groups) || !found && i == 0 || found && len(x.groups[i].datagrams) > 0 {
		return false
	}
	var behind uint64
	if found {
		behind = l.Object
	}
	p, ok := x.groups[i].next(behind, place.wasSent)
	return ok && x.track.cache.now().Sub(p.received()) < overtaken
}

// drop forgets a group. That costs little for the lowest one, which is mostly the oldest.
func (x *index) drop(g *group) {
	switch i, ok := x.search(g.id); {
	case !ok || x.groups[i] != g:
	case i == 0:
		x.groups[0] = nil
		x.groups = x.groups[1:]
	default:
		x.groups = slices.Delete(x.groups, i, i+1)
	}
	x.track.cache.forget(g)
}

// dropLowest forgets up to n groups that nobody reads or writes.
func (x *index) dropLowest(n int) {
	x.dropIf(func(g *group) bool {
		if n == 0 || g.isPinned() {
			return false
		}
		n--
		return true
	})
}

func (x *index) dropIf(drop func(*group) bool) {
	x.groups = slices.DeleteFunc(x.groups, func(g *group) bool {
		if !drop(g) {
			return false
		}
		g.evict()
		x.track.cache.forget(g)
		return true
	})
}

// clear forgets everything.
func (x *index) clear() {
	x.dropIf(func(*group) bool { return true })
	x.groups, x.gaps, x.absent = nil, nil, nil
	x.recount()
}

// keep limits the sets of group ids to a number of runs. Lower ones are unknown again.
func (x *index) keep(limit int) {
	x.gaps, x.absent = x.gaps.keep(limit), x.absent.keep(limit)
	x.recount()
}

// recount brings the count of the memory of the sets up to date.
func (x *index) recount() {
	n := int64(cap(x.gaps)+cap(x.absent)) * spanSize
	x.track.cache.mem.add(n - x.counted)
	x.counted = n
}

// admit is Track.admitLocked for a track that is not closed.
func (x *index) admit(a *arrival) (*group, verdict, error) {
	g := x.group(a.at.Group)
	if err := a.check(x, g); err != nil {
		return nil, 0, err
	}
	if x.absent.contains(a.at.Group) {
		return nil, nonexistent, nil
	}
	if g != nil && g.hasSeen(a.at.Object) {
		if p, ok := g.find(a.at.Object); !ok || !p.isTruncated() {
			return g, duplicate, a.checkDuplicate(p)
		}
	}
	if g != nil && g.absent.contains(a.at.Object) && a.status == moqt.StatusNormal {
		return g, nonexistent, nil
	}
	g = x.ensureGroup(a.at.Group)
	x.record(g, a)
	return g, newObject, nil
}

// record enters a new object of group g.
func (x *index) record(g *group, a *arrival) {
	id := a.at.Object
	g.touched, g.evicted = x.track.cache.now(), false
	g.seen = g.seen.add(span{id, id})
	if a.objectGap > 0 {
		g.gaps = g.gaps.add(span{id - a.objectGap, id - 1})
		g.absent = g.absent.add(span{id - a.objectGap, id - 1})
	}
	if a.hasGroupGap {
		g.groupGap, g.hasGroupGap = a.groupGap, true
		if a.groupGap > 0 {
			x.gaps = x.gaps.add(span{g.id - a.groupGap, g.id - 1})
			x.addAbsentGroups(span{g.id - a.groupGap, g.id - 1})
		}
	}
	switch {
	case a.status != moqt.StatusNormal:
		g.end(id)
	case a.endOfGroup && id < math.MaxUint64:
		g.end(id + 1)
	}
	switch {
	case a.status == moqt.StatusEndOfTrack:
		x.end(a.at)
	case a.status == moqt.StatusEndOfGroup && !a.datagram:
		x.endMark = &EndMark{a.subgroup, true}
	}
	x.largest.raise(a.at)
	x.received.raise(a.at)
	g.settle(maxRuns)
}

// end records that no object at l or after it exists.
func (x *index) end(l moqt.Location) {
	if x.limit == nil || l.Less(*x.limit) {
		x.limit = &l
	}
	if l.Group < math.MaxUint64 {
		x.addAbsentGroups(span{l.Group + 1, math.MaxUint64})
	}
}

// addAbsent records that no object of r exists.
func (x *index) addAbsent(r moqt.Range) {
	first, last := r.Start, r.End
	if first.Group == last.Group {
		x.addAbsentIDs(first.Group, span{first.Object, last.Object})
		return
	}
	if first.Object > 0 {
		x.addAbsentIDs(first.Group, span{first.Object, math.MaxUint64})
		first.Group++
	}
	if last.Object < math.MaxUint64 {
		x.addAbsentIDs(last.Group, span{0, last.Object})
		if last.Group == 0 {
			return
		}
		last.Group--
	}
	if first.Group <= last.Group {
		x.addAbsentGroups(span{first.Group, last.Group})
	}
}

func (x *index) addAbsentGroups(s span) {
	x.absent = x.absent.add(s)
	x.keep(maxRuns)
}

func (x *index) addAbsentIDs(group uint64, s span) {
	g := x.ensureGroup(group)
	g.absent = g.absent.add(s)
	g.settle(maxRuns)
}

// at is Track.At.
func (x *index) at(r moqt.Range, notBefore time.Time, w Waker) Stretch {
	if x.limit != nil && !r.Start.Less(*x.limit) || x.absent.contains(r.Start.Group) {
		return x.absentGroups(r)
	}
	i, ok := x.search(r.Start.Group)
	if !ok {
		return x.unknownGroups(r, i)
	}
	return x.groups[i].at(r, notBefore, w)
}

// absentGroups returns the stretch of absent groups that r starts in.
func (x *index) absentGroups(r moqt.Range) Stretch {
	s := Stretch{Existence: Absent, Range: r}
	if x.limit == nil || r.Start.Less(*x.limit) {
		run, _ := x.absent.from(r.Start.Group)
		s.Range.End = smaller(r.End, moqt.Location{Group: run.hi, Object: math.MaxUint64})
	}
	return s
}

// unknownGroups returns the stretch of groups before groups[i] that are not known to be absent.
func (x *index) unknownGroups(r moqt.Range, i int) Stretch {
	s := Stretch{Existence: Unknown, Range: r}
	if i < len(x.groups) {
		s.Range.End = smaller(s.Range.End, moqt.Location{Group: x.groups[i].id - 1, Object: math.MaxUint64})
	}
	if run, ok := x.absent.from(r.Start.Group); ok {
		s.Range.End = smaller(s.Range.End, moqt.Location{Group: run.lo - 1, Object: math.MaxUint64})
	}
	return s
}

func smaller(a, b moqt.Location) moqt.Location {
	if b.Less(a) {
		return b
	}
	return a
}
