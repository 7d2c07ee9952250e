package track

import (
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
// Reader holds the object's bytes from Object.Start on. It may still be arriving. A Stretch must be closed.
type Stretch struct {
	Existence Existence
	Range     moqt.Range
	Segment   *Segment
	Object    Object
	Reader    *Reader
	Datagram  *Datagram
}

// open makes p the stretch's object. It reports false if the object's bytes are gone.
func (s *Stretch) open(p place, w Waker) bool {
	if p.datagram != nil {
		s.Close()
		s.Datagram = p.datagram
		return true
	}
	r, err := p.segment.Log.NewReader(p.object.Start, w)
	if err != nil {
		return false
	}
	s.Close()
	s.Segment, s.Object, s.Reader = p.segment, p.object, r
	return true
}

// Close ends the use of the object.
func (s *Stretch) Close() {
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
