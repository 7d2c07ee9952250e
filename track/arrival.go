package track

import (
	"errors"
	"fmt"

	"sluice/moqt"
)

// ErrClosed is returned for objects of a track that was closed.
var ErrClosed = errors.New("track is closed")

// arrival is an object that has come, before the track decides whether to keep and forward it. Its methods are the
// rules by which a track is malformed (draft §2.4.2, §9.1, §12.8, §12.9), and expect Track.mu to be held.
type arrival struct {
	at          moqt.Location
	subgroup    uint64
	datagram    bool
	priority    uint8
	unranked    bool // the publisher did not tell the priority
	status      moqt.ObjectStatus
	endOfGroup  bool // END_OF_GROUP of a datagram
	groupGap    uint64
	objectGap   uint64
	hasGroupGap bool
}

// verdict is what becomes of an arrival that breaks no rule.
type verdict uint8

const (
	newObject   verdict = iota // it is kept and forwarded
	duplicate                  // it came before; its payload must be the same
	nonexistent                // it is recorded as nonexistent, and neither kept nor forwarded (draft §9.1)
)

func malformed(format string, args ...any) error {
	return &moqt.MalformedTrackError{Reason: fmt.Sprintf(format, args...)}
}

func (a *arrival) setProperties(p moqt.Properties) {
	a.groupGap, a.hasGroupGap = p.PriorGroupIDGap()
	a.objectGap, _ = p.PriorObjectIDGap()
}

// check applies the rules that do not compare an object with an earlier copy of it. g is nil if its group is
// not known.
func (a *arrival) check(x *index, g *group) error {
	if err := a.checkEndOfTrack(x); err != nil {
		return err
	}
	if x.gaps.contains(a.at.Group) {
		return malformed("object %s lies in a prior group id gap", a.at)
	}
	if err := a.checkGroupGap(x, g); err != nil {
		return err
	}
	if g == nil {
		return nil
	}
	if err := a.checkGroup(g); err != nil {
		return err
	}
	if s := g.subgroups.find(a.subgroup); s != nil && !a.datagram {
		return a.checkSubgroup(s)
	}
	return nil
}

func (a *arrival) checkEndOfTrack(x *index) error {
	switch {
	case x.limit != nil && (x.limit.Less(a.at) || a.at == *x.limit && a.status == moqt.StatusNormal):
		return malformed("object %s follows the end of the track at %s", a.at, *x.limit)
	case a.status == moqt.StatusEndOfTrack && x.limit == nil && x.received.set && !x.received.at.Less(a.at):
		return malformed("the end of the track at %s precedes object %s", a.at, x.received.at)
	}
	return nil
}

func (a *arrival) checkGroupGap(x *index, g *group) error {
	if !a.hasGroupGap {
		return nil
	}
	if a.groupGap > a.at.Group {
		return malformed("object %s has a prior group id gap of %d", a.at, a.groupGap)
	}
	if g != nil && g.hasGroupGap && g.groupGap != a.groupGap {
		return malformed("objects of group %d have prior group id gaps of %d and %d", g.id, g.groupGap, a.groupGap)
	}
	i, _ := x.search(a.at.Group - a.groupGap)
	for ; i < len(x.groups) && x.groups[i].id < a.at.Group; i++ {
		if len(x.groups[i].seen) > 0 {
			return malformed("object %s has a prior group id gap that covers an object received in group %d",
				a.at, x.groups[i].id)
		}
	}
	return nil
}

func (a *arrival) checkGroup(g *group) error {
	id := a.at.Object
	if g.ended && (id > g.limit || id == g.limit && a.status == moqt.StatusNormal) {
		return malformed("object %s follows the end of its group at %d", a.at, g.limit)
	}
	last, ok := g.seen.max()
	if a.status != moqt.StatusNormal && ok && last >= id && !(g.ended && g.limit == id) {
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
	return nil
}

func (a *arrival) checkSubgroup(s *subgroup) error {
	if s.priority != a.priority && !a.unranked {
		return malformed("object %s has publisher priority %d, its subgroup has %d", a.at, a.priority, s.priority)
	}
	if s.finished && a.at.Object > s.last && a.status == moqt.StatusNormal { // see group.isMark
		return malformed("object %s follows the end of its subgroup at %d", a.at, s.last)
	}
	return nil
}

// checkDuplicate compares the fields that must not differ (draft §9.1) with the object held at p; p is empty if it is
// not held any more. Payloads are compared by the caller, which has them in pieces.
func (a *arrival) checkDuplicate(p place) error {
	unranked := a.unranked || p.unranked()
	switch {
	case p == place{}:
		return nil
	case a.datagram != (p.datagram != nil):
		return malformed("object %s came with both forwarding preferences", a.at)
	case a.datagram && (a.priority != p.datagram.Priority && !unranked || a.status != p.datagram.Status):
		return malformed("object %s came with different priorities or statuses", a.at)
	case !a.datagram && a.subgroup != p.segment.Subgroup && a.status == moqt.StatusNormal: // see group.isMark
		return malformed("object %s came in subgroups %d and %d", a.at, p.segment.Subgroup, a.subgroup)
	case !a.datagram && (a.priority != p.segment.Priority && !unranked || a.status != p.object.Status):
		return malformed("object %s came with different priorities or statuses", a.at)
	}
	return nil
}
