package track

import (
	"errors"
	"fmt"
	"math"

	"sluice/moqt"
)

// ErrClosed is returned for objects of a track that was closed.
var ErrClosed = errors.New("track is closed")

// arrival is an object that came on a subscription, before it is known whether it may be kept and forwarded.
type arrival struct {
	at          moqt.Location
	subgroup    uint64
	datagram    bool
	priority    uint8
	status      moqt.ObjectStatus
	endOfGroup  bool // END_OF_GROUP of a datagram
	groupGap    uint64
	objectGap   uint64
	hasGroupGap bool
}

func (a *arrival) setProperties(p moqt.Properties) {
	a.groupGap, a.hasGroupGap = p.PriorGroupIDGap()
	a.objectGap, _ = p.PriorObjectIDGap()
}

type verdict uint8

const (
	fresh       verdict = iota // to be kept and forwarded
	duplicate                  // came before; its payload must be the same
	nonexistent                // recorded as not existing: neither kept nor forwarded (draft §9.1)
)

// admit decides on an object and, if it is fresh, records it. The error is a *moqt.MalformedTrackError, and nothing is recorded then.
func (t *Track) admit(a *arrival) (*group, verdict, error) {
	if t.closed {
		return nil, 0, ErrClosed
	}
	g := t.group(a.at.Group)
	if err := t.check(g, a); err != nil {
		return nil, 0, err
	}
	if t.absent.contains(a.at.Group) {
		return nil, nonexistent, nil
	}
	if g != nil && g.seen.contains(a.at.Object) {
		if p, ok := g.find(a.at.Object); !ok || !p.truncated() {
			return g, duplicate, a.checkDuplicate(p)
		}
	}
	if g != nil && g.absent.contains(a.at.Object) && a.status == moqt.StatusNormal {
		return g, nonexistent, nil
	}
	g = t.ensureGroup(a.at.Group)
	t.record(g, a)
	return g, fresh, nil
}

// check applies the rules of draft §2.4.2, §12.8 and §12.9 that do not concern an object that came before.
func (t *Track) check(g *group, a *arrival) error {
	if err := t.checkEnd(a); err != nil {
		return err
	}
	if t.gaps.contains(a.at.Group) {
		return malformed("object %s lies in a prior group id gap", a.at)
	}
	if err := t.checkGroupGap(g, a); err != nil {
		return err
	}
	if g == nil {
		return nil
	}
	return g.check(a)
}

func (t *Track) checkEnd(a *arrival) error {
	switch {
	case t.limit != nil && (t.limit.Less(a.at) || a.at == *t.limit && a.status == moqt.StatusNormal):
		return malformed("object %s follows the end of the track at %s", a.at, *t.limit)
	case a.status == moqt.StatusEndOfTrack && t.limit == nil && t.received.set && !t.received.at.Less(a.at):
		return malformed("the end of the track at %s precedes object %s", a.at, t.received.at)
	}
	return nil
}

func (t *Track) checkGroupGap(g *group, a *arrival) error {
	if !a.hasGroupGap {
		return nil
	}
	if a.groupGap > a.at.Group {
		return malformed("object %s has a prior group id gap of %d", a.at, a.groupGap)
	}
	if g != nil && g.hasGroupGap && g.groupGap != a.groupGap {
		return malformed("objects of group %d have prior group id gaps of %d and %d", g.id, g.groupGap, a.groupGap)
	}
	i, _ := t.search(a.at.Group - a.groupGap)
	for ; i < len(t.groups) && t.groups[i].id < a.at.Group; i++ {
		if len(t.groups[i].seen) > 0 {
			return malformed("object %s has a prior group id gap that covers an object received in group %d", a.at, t.groups[i].id)
		}
	}
	return nil
}

func (g *group) check(a *arrival) error {
	id := a.at.Object
	if g.ended && (id > g.limit || id == g.limit && a.status == moqt.StatusNormal) {
		return malformed("object %s follows the end of its group at %d", a.at, g.limit)
	}
	if last, ok := g.seen.max(); a.status != moqt.StatusNormal && ok && last >= id && !(g.ended && g.limit == id) {
		return malformed("the end of group %d at %d precedes object %d", g.id, id, last)
	}
	if g.gaps.contains(id) {
		return malformed("object %s lies in a prior object id gap", a.at)
	}
	if a.objectGap > id {
		return malformed("object %s has a prior object id gap of %d", a.at, a.objectGap)
	}
	if a.objectGap > 0 && g.seen.overlaps(span{id - a.objectGap, id - 1}) {
		return malformed("object %s has a prior object id gap that covers an object received", a.at)
	}
	if s := g.subgroup(a.subgroup); s != nil && !a.datagram {
		return s.check(a)
	}
	return nil
}

func (s *subgroup) check(a *arrival) error {
	if s.priority != a.priority {
		return malformed("object %s has publisher priority %d, its subgroup has %d", a.at, a.priority, s.priority)
	}
	if s.finished && a.at.Object > s.last {
		return malformed("object %s follows the end of its subgroup at %d", a.at, s.last)
	}
	return nil
}

// checkDuplicate compares the fields that must not differ (draft §9.1), as far as the object is still held. Payloads are compared by the
// caller, who has them in pieces.
func (a *arrival) checkDuplicate(p place) error {
	switch {
	case p == place{}:
		return nil
	case a.datagram != (p.datagram != nil):
		return malformed("object %s came with both forwarding preferences", a.at)
	case a.datagram && (a.priority != p.datagram.Priority || a.status != p.datagram.Status):
		return malformed("object %s came with different priorities or statuses", a.at)
	case !a.datagram && a.subgroup != p.segment.Subgroup:
		return malformed("object %s came in subgroups %d and %d", a.at, p.segment.Subgroup, a.subgroup)
	case !a.datagram && (a.priority != p.segment.Priority || a.status != p.object.Status):
		return malformed("object %s came with different priorities or statuses", a.at)
	}
	return nil
}

func (t *Track) record(g *group, a *arrival) {
	id := a.at.Object
	g.touched, g.evicted = t.cache.now(), false
	g.seen = g.seen.add(span{id, id})
	if a.objectGap > 0 {
		g.gaps = g.gaps.add(span{id - a.objectGap, id - 1})
		g.absent = g.absent.add(span{id - a.objectGap, id - 1})
	}
	if a.hasGroupGap {
		g.groupGap, g.hasGroupGap = a.groupGap, true
		if a.groupGap > 0 {
			t.gaps = t.gaps.add(span{g.id - a.groupGap, g.id - 1})
			t.absent = t.absent.add(span{g.id - a.groupGap, g.id - 1})
		}
	}
	switch {
	case a.status != moqt.StatusNormal:
		g.end(id)
	case a.endOfGroup && id < math.MaxUint64:
		g.end(id + 1)
	}
	if a.status == moqt.StatusEndOfTrack {
		t.end(a.at)
	}
	t.largest.raise(a.at)
	t.received.raise(a.at)
	g.recount()
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

// end records that no object at l or after it exists.
func (t *Track) end(l moqt.Location) {
	if t.limit == nil || l.Less(*t.limit) {
		t.limit = &l
	}
	if l.Group < math.MaxUint64 {
		t.absent = t.absent.add(span{l.Group + 1, math.MaxUint64})
	}
}

// AddDatagram admits an object that came in a datagram. It reports whether the object is to be forwarded; the error is a
// *moqt.MalformedTrackError. The memory of d becomes the track's.
func (t *Track) AddDatagram(d *Datagram) (forward bool, err error) {
	a := arrival{at: moqt.Location{Group: d.Group, Object: d.ID}, datagram: true, priority: d.Priority, status: d.Status, endOfGroup: d.EndOfGroup}
	a.setProperties(d.Properties)
	t.mu.Lock()
	defer t.cache.enforce()
	defer t.mu.Unlock()
	g, v, err := t.admit(&a)
	if err != nil || v != fresh {
		if v == duplicate && err == nil {
			err = g.compareDatagram(d)
		}
		return false, err
	}
	if t.retention() > 0 {
		g.addDatagram(d)
	}
	return true, nil
}

func (g *group) compareDatagram(d *Datagram) error {
	p, ok := g.find(d.ID)
	if ok && p.datagram != nil && string(p.datagram.Payload) != string(d.Payload) {
		return malformed("object {%d, %d} came with different payloads", d.Group, d.ID)
	}
	if ok && p.datagram != nil && string(moqt.Properties(p.datagram.Properties).Immutable()) != string(moqt.Properties(d.Properties).Immutable()) {
		return malformed("object {%d, %d} came with different immutable properties", d.Group, d.ID)
	}
	return nil
}

// AddAbsent records that no object of r exists, as a FETCH response says.
func (t *Track) AddAbsent(r moqt.Range) {
	if r.Empty() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	first, last := r.Start, r.End
	if first.Group == last.Group {
		t.addAbsentIDs(first.Group, span{first.Object, last.Object})
		return
	}
	if first.Object > 0 {
		t.addAbsentIDs(first.Group, span{first.Object, math.MaxUint64})
		first.Group++
	}
	if last.Object < math.MaxUint64 {
		t.addAbsentIDs(last.Group, span{0, last.Object})
		if last.Group == 0 {
			return
		}
		last.Group--
	}
	if first.Group <= last.Group {
		t.absent = t.absent.add(span{first.Group, last.Group})
	}
}

func (t *Track) addAbsentIDs(group uint64, s span) {
	if t.closed {
		return
	}
	g := t.ensureGroup(group)
	g.absent = g.absent.add(s)
	g.recount()
}

// AddEnd records that no object at l or after it exists, as FETCH_OK says with End Of Track.
func (t *Track) AddEnd(l moqt.Location) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(l)
}

func malformed(format string, args ...any) error {
	return &moqt.MalformedTrackError{Reason: fmt.Sprintf(format, args...)}
}
