package track

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sluice/moqt"
)

// Segment is a run of objects of one subgroup in one log, for example the objects that one stream of a publisher
// brought. A subgroup is one segment unless its stream was reset and later objects came on another.
type Segment struct {
	Log             *Log
	Group, Subgroup uint64
	Priority        uint8 // Publisher Priority

	First         uint64 // id of the first object
	Start         int64  // offset of its Object ID Delta
	FirstObject   bool   // First is the first object ever published in the subgroup (FIRST_OBJECT, draft §11.4.2)
	EndOfGroup    bool   // the subgroup contains the largest object of the group (END_OF_GROUP)
	HasProperties bool   // each object has the Properties field (PROPERTIES)

	// ObjectTimeout and SubgroupTimeout are the delivery timeouts of the subgroup, in milliseconds, which its first
	// object has as properties (draft-19 §8). nil: the track's apply.
	ObjectTimeout, SubgroupTimeout *uint64

	fetched  bool // the objects came by FETCH and were not sent to subscribers
	unranked bool // their publisher did not tell the priority

	track *Track
	form  Form // see Derive

	// Guarded by Track.mu.
	gone    bool // the track does not keep the objects
	derived []*derived
}

// Track returns the track that keeps the segment, or has kept it.
func (s *Segment) Track() *Track { return s.track }

// resume lets another stream go on with a segment that was cut. It reports false if that is not kept any more.
func (s *Segment) resume() bool {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	return !s.gone && !s.track.closed && s.Log.resume()
}

// patience returns how long the segment waits, once cut, for a stream that goes on with it. While a later group is on
// its way, the publisher, if it has come back, has probably left this one out.
func (s *Segment) patience() time.Duration {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case s.gone, t.closed:
		return 0
	case t.index.received.at.Group > s.Group:
		return min(t.cache.grace, stallTimeout)
	}
	return t.cache.grace
}

// drop releases the objects that no reader needs, also those that are still to come; Track.mu is held.
func (s *Segment) drop() {
	s.gone = true
	s.Log.Discard(math.MaxInt64)
	for _, d := range s.derived {
		d.segment.Log.Discard(math.MaxInt64)
	}
	s.track.cache.mem.add(-int64(len(s.derived)) * derivedSize)
	s.derived = nil
}

// stopUnread forgets the segments derived from s that nobody reads; Track.mu is held.
func (s *Segment) stopUnread() {
	s.derived = slices.DeleteFunc(s.derived, func(d *derived) bool {
		if d.segment.Log.isRead() {
			return false
		}
		d.stop()
		s.track.cache.mem.add(-derivedSize)
		return true
	})
}

// expire releases the objects that were received before the given time and that no reader needs; Track.mu is held.
func (s *Segment) expire(before time.Time) {
	s.Log.expire(before)
	for _, d := range s.derived {
		d.segment.Log.expire(before)
	}
}

// discardUnread releases the objects that have come and that no reader needs; Track.mu is held.
func (s *Segment) discardUnread() {
	s.Log.Discard(s.Log.End())
	for _, d := range s.derived {
		d.segment.Log.Discard(d.segment.Log.End())
	}
}

// accepts reports whether o is the next object of the segment's subgroup (draft §11.4.3) and can be encoded as the
// segment's objects are. previous is the id of the object before o on its stream, if there is one.
func (s *Segment) accepts(o Object, previous uint64, hasPrevious bool) bool {
	last, _ := s.Log.Last()
	next := o.ID == last.ID+1 || hasPrevious && previous == last.ID
	complete := s.Log.End() == last.End
	return next && complete && (s.HasProperties || o.PropertiesLen == 0)
}

// endsIn reports whether o is the object that the segment's log ends in the middle of.
func (s *Segment) endsIn(o Object) bool {
	last, _ := s.Log.Last()
	return last.ID == o.ID && s.Log.End() < last.End
}

// appendHeader writes the fields of o that precede its payload, and makes them visible.
func (s *Segment) appendHeader(o Object, p moqt.Properties) {
	_ = s.writeHeader(o, p) // the canonical layout has all numbers
	s.Log.Commit(s.Log.Written())
}

// writeHeader writes the fields of o that precede its payload. It fails if the segment's layout has no such numbers.
func (s *Segment) writeHeader(o Object, p moqt.Properties) error {
	log, layout, delta := s.Log, cmp.Or(s.form.Layout, canonical), o.ID
	if last, ok := log.Last(); ok {
		delta -= last.ID + 1
	}
	encoder := moqt.NewSubgroupEncoder(layout, moqt.SubgroupHeader{HasProperties: s.HasProperties})
	b, err := encoder.AppendObject(nil, moqt.ObjectHeader{ // as the first one, whose id is not relative
		ObjectID: delta, Properties: p, PayloadLength: uint64(o.PayloadLen()), Status: o.Status,
	})
	if err != nil {
		return err
	}
	k := Object{ID: o.ID, Start: log.Written(), Status: o.Status, Received: o.Received}
	k.IDEnd = k.Start + int64(len(layout.AppendNumber(nil, delta)))
	if len(p) > 0 && layout == canonical {
		k.PropertiesStart, k.PropertiesLen = k.IDEnd+int64(len(moqt.AppendVarint(nil, uint64(len(p))))), len(p)
	}
	k.PayloadStart = k.Start + int64(len(b))
	k.End = k.PayloadStart + o.PayloadLen()
	log.write(b)
	return log.AddObject(k)
}

// appendSame appends the bytes of another log that precede the payload of o.
func (s *Segment) appendSame(o Object, from *Log) {
	by := s.Log.End() - o.Start
	from.mu.Lock()
	head := from.chunks.read(o.Start, int(o.PayloadStart-o.Start))
	from.mu.Unlock()
	o.Start, o.IDEnd, o.PropertiesStart = o.Start+by, o.IDEnd+by, o.PropertiesStart+by
	o.PayloadStart, o.End = o.PayloadStart+by, o.End+by
	s.Log.AddObject(o)
	s.Log.Append(head)
}

// Derive returns s in a form. That is s itself if it is in that form, or nil if no object can be, or there is no room,
// or the bytes are gone. Subscribers share what they get in the same form. It is kept for as long as it is read, so the
// caller opens its readers before it calls release. copied is how many bytes of s were looked at to make the segment.
func (s *Segment) Derive(form Form) (seg *Segment, copied int64, release func()) {
	form, some := form.of(s)
	switch {
	case !some:
		return nil, 0, nil
	case form.isPlain():
		return s, 0, func() {}
	}
	s.track.deriving.Lock()
	defer s.track.deriving.Unlock()
	if seg, guard := s.findDerived(form); guard != nil {
		return seg, 0, guard.Close
	}
	d, guard, err := newDerived(s, form)
	if err != nil {
		return nil, 0, nil
	}
	start := d.off
	d.Wake()
	if !s.addDerived(d) {
		d.stop()
		guard.Close()
		return nil, 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.segment, d.off - start, guard.Close
}

// IsIn reports whether Derive returns the segment, for itself or for the segment that it is derived from.
func (s *Segment) IsIn(form Form) bool {
	form, some := form.of(s)
	return some && form.equal(s.form)
}

// findDerived returns a segment that was derived before, and a Reader that keeps it.
func (s *Segment) findDerived(form Form) (*Segment, *Reader) {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	for _, d := range s.derived {
		if d.segment.form.equal(form) {
			if guard, err := d.segment.Log.newReaderOfAll(nil); err == nil {
				return d.segment, guard
			}
		}
	}
	return nil, nil
}

// addDerived keeps a derived segment with s, if there is room.
func (s *Segment) addDerived(d *derived) bool {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.index.group(s.Group)
	if s.gone || g == nil || t.closed || t.retentionLocked() <= 0 {
		d.segment.Log.Discard(math.MaxInt64) // only those have it who read it now
	}
	if s.gone || g == nil {
		return true
	}
	if s.isFull(d.segment.form) {
		s.stopUnread()
	}
	if s.isFull(d.segment.form) {
		t.cache.trims.Add(1)
		return false
	}
	s.derived = append(s.derived, d)
	t.cache.mem.add(derivedSize)
	return true
}

// isFull reports whether there is no room for a segment that is derived from s; Track.mu is held.
func (s *Segment) isFull(form Form) bool {
	n := 0
	for _, d := range s.derived {
		if (len(d.segment.form.Filters) > 0) == (len(form.Filters) > 0) {
			n++
		}
	}
	return n >= maxDerived
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

	fetched  bool // it came by FETCH and was not sent to subscribers
	unranked bool // its publisher did not tell the priority
}

func (d *Datagram) arrival() arrival {
	a := arrival{
		at: moqt.Location{Group: d.Group, Object: d.ID}, datagram: true,
		priority: d.Priority, status: d.Status, endOfGroup: d.EndOfGroup,
	}
	a.setProperties(d.Properties)
	return a
}

// memory returns how many bytes the datagram occupies.
func (d *Datagram) memory() int64 {
	return datagramSize + int64(cap(d.Properties)) + int64(cap(d.Payload))
}

// place is where an object is held: in a segment or a datagram.
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

func (p place) payloadLen() int64 {
	if p.datagram != nil {
		return int64(len(p.datagram.Payload))
	}
	return p.object.PayloadLen()
}

// wasSent reports whether the object came on a subscription.
func (p place) wasSent() bool {
	return p.datagram != nil && !p.datagram.fetched || p.segment != nil && !p.segment.fetched
}

// unranked reports whether the object's publisher did not tell its priority.
func (p place) unranked() bool {
	return p.datagram != nil && p.datagram.unranked || p.segment != nil && p.segment.unranked
}

// isComplete reports whether all of the object has come.
func (p place) isComplete() bool {
	return p.datagram != nil || p.object.End <= p.segment.Log.End()
}

// isTruncated reports whether the end of the object may never come.
func (p place) isTruncated() bool {
	if p.datagram != nil {
		return false
	}
	state, _ := p.segment.Log.State()
	return state.broken() && !p.isComplete()
}

// topRank is the rank of a place that no other is better than.
const topRank = 2

// rank orders the places where one object is held: see group.find.
func (p place) rank() int {
	switch {
	case !p.wasSent():
		return 0
	case p.isTruncated():
		return 1
	}
	return topRank
}

// received returns when the first bytes of the object came.
func (p place) received() time.Time {
	if p.datagram != nil {
		return p.datagram.Received
	}
	return p.object.Received
}

// isServable reports whether the object is recent enough and will be complete.
func (p place) isServable(notBefore time.Time) bool {
	status := p.object.Status
	if p.datagram != nil {
		status = p.datagram.Status
	}
	return status == moqt.StatusNormal && !p.received().Before(notBefore) && !p.isTruncated()
}
