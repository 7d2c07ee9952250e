package track

import (
	"math"
	"time"

	"sluice/moqt"
)

// Existence is whether an object exists, as far as the track knows (draft §2.1).
type Existence uint8

// States of an object.
const (
	Unknown Existence = iota // not held, and it may exist
	Present                  // held
	Absent                   // known not to exist
)

// Stretch is a run of locations in one state. A Present one is a single object: in a datagram, or in a log, where
// Reader holds the object's bytes from Object.Start on. It may still be arriving.
type Stretch struct {
	Existence Existence
	Range     moqt.Range
	Segment   *Segment
	Object    Object
	Reader    *Reader // must be closed
	Datagram  *Datagram
}

// At returns the longest stretch that starts at r.Start and does not go beyond r.End. Objects received before notBefore
// count as Unknown: see Fresh. The Reader of a Present stretch wakes w, which may be nil.
func (t *Track) At(r moqt.Range, notBefore time.Time, w Waker) Stretch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.at(r, notBefore, w)
}

// open makes p the stretch's object. It reports false if the object's bytes are gone.
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

// GroupRun is a run of groups in one state. A Present one is a single group about which something is known, see At.
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
	defer t.mu.Unlock()
	if t.index.group(first) != nil && !t.index.absent.contains(first) {
		return GroupRun{first, first, Present}
	}
	s := t.index.at(moqt.Range{
		Start: moqt.Location{Group: first}, End: moqt.Location{Group: last, Object: math.MaxUint64},
	}, time.Time{}, nil)
	return GroupRun{first, s.Range.End.Group, s.Existence}
}
