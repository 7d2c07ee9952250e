package track

import (
	"math"
	"time"

	"sluice/moqt"
)

// Existence is what is known of an object (draft §2.1).
type Existence uint8

// States of an object.
const (
	Unknown Existence = iota // not held, and it may exist
	Present                  // held
	Absent                   // known not to exist
)

// Stretch is a run of locations in one state. A Present one is a single object: in a datagram, or in a log of which Reader holds the object's
// bytes, from Object.Start on. It may still be arriving.
type Stretch struct {
	Existence Existence
	Range     moqt.Range
	Segment   *Segment
	Object    Object
	Reader    *Reader // must be closed
	Datagram  *Datagram
}

// At returns the longest stretch that starts at r.Start and does not go beyond r.End. Objects received before notBefore count as Unknown: see
// Fresh. The Reader of a Present stretch wakes w, which may be nil.
func (t *Track) At(r moqt.Range, notBefore time.Time, w Waker) Stretch {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit != nil && !r.Start.Less(*t.limit) || t.absent.contains(r.Start.Group) {
		return t.absentGroups(r)
	}
	i, ok := t.search(r.Start.Group)
	if !ok {
		return t.unknownGroups(r, i)
	}
	return t.groups[i].at(r, notBefore, w)
}

func (t *Track) absentGroups(r moqt.Range) Stretch {
	s := Stretch{Existence: Absent, Range: r}
	if t.limit == nil || r.Start.Less(*t.limit) {
		run, _ := t.absent.from(r.Start.Group)
		s.Range.End = smaller(r.End, moqt.Location{Group: run.hi, Object: math.MaxUint64})
	}
	return s
}

// unknownGroups covers the groups before t.groups[i], as far as they are not known to be absent.
func (t *Track) unknownGroups(r moqt.Range, i int) Stretch {
	s := Stretch{Existence: Unknown, Range: r}
	if i < len(t.groups) {
		s.Range.End = smaller(s.Range.End, moqt.Location{Group: t.groups[i].id - 1, Object: math.MaxUint64})
	}
	if run, ok := t.absent.from(r.Start.Group); ok {
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
	p, ok := g.next(start, func(p place) bool { return p.id() > end || p.servable(notBefore) && s.open(p, w) })
	switch {
	case ok && p.id() == start:
		s.Existence, end = Present, start
	case ok:
		s.close()
		end = min(end, p.id()-1)
	}
	s.Range.End = moqt.Location{Group: g.id, Object: end}
	return s
}

// servable reports whether the object is recent enough and will be complete.
func (p place) servable(notBefore time.Time) bool {
	if p.datagram != nil {
		return p.datagram.Status == moqt.StatusNormal && !p.datagram.Received.Before(notBefore)
	}
	return p.object.Status == moqt.StatusNormal && !p.object.Received.Before(notBefore) && !p.truncated()
}

// open makes p the stretch's object, unless its bytes are gone.
func (s *Stretch) open(p place, w Waker) bool {
	if p.datagram != nil {
		s.close()
		s.Datagram = p.datagram
		return true
	}
	r, err := p.segment.Log.NewReader(p.object.Start, w)
	if err != nil {
		return false
	}
	s.close()
	s.Segment, s.Object, s.Reader = p.segment, p.object, r
	return true
}

func (s *Stretch) close() {
	if s.Reader != nil {
		s.Reader.Close()
	}
	s.Segment, s.Object, s.Reader, s.Datagram = nil, Object{}, nil, nil
}

// GroupRun is a run of groups in one state: Present is a single group of which something is known, for At to tell.
type GroupRun struct {
	First, Last uint64
	Existence   Existence
}

// Groups divides the groups from first to last into runs, in ascending order.
func (t *Track) Groups(first, last uint64) []GroupRun {
	var runs []GroupRun
	for {
		run := t.groupRun(first, last)
		runs = append(runs, run)
		if run.Last >= last {
			return runs
		}
		first = run.Last + 1
	}
}

func (t *Track) groupRun(first, last uint64) GroupRun {
	t.mu.Lock()
	_, known := t.search(first)
	known = known && !t.absent.contains(first)
	t.mu.Unlock()
	if known {
		return GroupRun{first, first, Present}
	}
	s := t.At(moqt.Range{Start: moqt.Location{Group: first}, End: moqt.Location{Group: last, Object: math.MaxUint64}}, time.Time{}, nil)
	return GroupRun{first, s.Range.End.Group, s.Existence}
}
