package track

import (
	"bytes"
	"slices"

	"sluice/moqt"
)

// maxDatagram is the largest payload of an object in a datagram that is kept, in bytes: the most that UDP can carry.
const maxDatagram = 1<<16 - 1

// FetchWriter stores the objects of a FETCH response. They are there for later FETCHes only: an object that comes on a
// subscription is forwarded to subscribers even if it was fetched before.
type FetchWriter struct {
	track    *Track
	segments []*Segment // open ones, all of one group

	// The object whose payload comes now. One of log, datagram and held is set, or none if the object is not to be
	// kept.
	at       moqt.Location
	left     uint64 // payload bytes to come
	log      *Log
	datagram *Datagram
	held     *Reader // reads the same object, held already, to compare with
	offset   int64   // in held
}

// Begin takes in an object; its payload follows in calls of Write. The error is a *moqt.MalformedTrackError, or
// ErrClosed. If the publisher has not told the priority (unranked), Begin sets it to the priority of the object's
// subgroup, if that is known.
func (f *FetchWriter) Begin(o *moqt.FetchObject, unranked bool) error {
	f.endObject()
	t := f.track
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	g := t.index.group(o.Location.Group)
	if g != nil && unranked && !o.Datagram {
		if s := g.subgroups.find(o.SubgroupID); s != nil {
			o.Priority = s.priority
		}
	}
	a := arrival{
		at: o.Location, subgroup: o.SubgroupID, datagram: o.Datagram, priority: o.Priority, unranked: unranked,
	}
	a.setProperties(o.Properties)
	f.at, f.left = o.Location, o.PayloadLength
	if err := a.check(&t.index, g); err != nil {
		return err
	}
	if g != nil {
		if p, ok := g.find(a.at.Object); ok && !p.isTruncated() {
			return f.compareWith(p, &a)
		}
	}
	if t.retentionLocked() > 0 {
		f.storeLocked(t.index.ensureGroup(a.at.Group), o, unranked)
	}
	return nil
}

// compareWith makes Write compare the payload with an object that is held already.
func (f *FetchWriter) compareWith(p place, a *arrival) error {
	if err := a.checkDuplicate(p); err != nil {
		return err
	}
	if uint64(p.payloadLen()) != f.left {
		return malformed("object %s came with different payloads", f.at)
	}
	if p.datagram != nil {
		l := NewLog(0, nil)
		l.Append(p.datagram.Payload)
		f.held, _ = l.NewReader(0, nil)
		f.offset = 0
		return nil
	}
	f.held, _ = p.segment.Log.NewReader(p.object.PayloadStart, nil) // nil if it is gone: nothing to compare with
	f.offset = p.object.PayloadStart
	return nil
}

// storeLocked makes Write store the payload; Track.mu is held.
func (f *FetchWriter) storeLocked(g *group, o *moqt.FetchObject, unranked bool) {
	g.touched = f.track.cache.now()
	g.evicted = false
	if o.Datagram && o.PayloadLength > maxDatagram {
		return
	}
	if o.Datagram {
		f.datagram = &Datagram{
			Group: g.id, ID: o.Location.Object, Priority: o.Priority, Properties: bytes.Clone(o.Properties),
			Received: g.touched, fetched: true, unranked: unranked,
		}
		return
	}
	seg := f.segmentLocked(g, o, unranked)
	f.log = seg.Log
	seg.appendHeader(Object{ID: o.Location.Object, End: int64(o.PayloadLength), Received: g.touched}, o.Properties)
}

// segmentLocked returns the segment to append o to; Track.mu is held.
func (f *FetchWriter) segmentLocked(g *group, o *moqt.FetchObject, unranked bool) *Segment {
	if len(f.segments) > 0 && f.segments[0].Group != g.id {
		f.endSegments()
	}
	for _, s := range f.segments {
		if s.Subgroup == o.SubgroupID && s.Priority == o.Priority && s.unranked == unranked {
			return s
		}
	}
	if len(f.segments) == maxFetched {
		f.segments[0].Log.Finish()
		f.segments = slices.Delete(f.segments, 0, 1)
	}
	s := &Segment{
		Log: NewLog(0, &f.track.cache.mem), Group: g.id, Subgroup: o.SubgroupID, Priority: o.Priority,
		First: o.Location.Object, HasProperties: true, fetched: true, unranked: unranked,
		track: f.track,
	}
	g.addSegment(s)
	f.segments = append(f.segments, s)
	return s
}

// Write takes in the next bytes of the payload.
func (f *FetchWriter) Write(p []byte) error {
	f.left -= uint64(len(p))
	switch {
	case f.log != nil:
		f.log.Append(p)
	case f.datagram != nil:
		f.datagram.Payload = append(f.datagram.Payload, p...)
	case f.held != nil:
		return f.compare(p)
	}
	return nil
}

// compare compares p with the same bytes of the held object, as far as they have come.
func (f *FetchWriter) compare(p []byte) error {
	for len(p) > 0 {
		v := f.held.View(f.offset, len(p))
		if len(v) == 0 { // it is still arriving; what follows p may have come by then
			f.offset += int64(len(p))
			return nil
		}
		if !bytes.Equal(v, p[:len(v)]) {
			return malformed("object %s came with different payloads", f.at)
		}
		f.offset += int64(len(v))
		p = p[len(v):]
	}
	return nil
}

// endObject leaves the current object, complete or not.
func (f *FetchWriter) endObject() {
	if f.datagram != nil && f.left == 0 {
		t := f.track
		t.mu.Lock()
		if g := t.index.group(f.at.Group); g != nil && !t.closed {
			g.addDatagram(f.datagram)
		}
		t.mu.Unlock()
	}
	if f.held != nil {
		f.held.Close()
	}
	f.log, f.datagram, f.held = nil, nil, nil
}

func (f *FetchWriter) endSegments() {
	for _, s := range f.segments {
		s.Log.Finish()
	}
	f.segments = nil
}

// Close ends the response. An object whose payload is not complete is not kept.
func (f *FetchWriter) Close() {
	if f.log != nil && f.left > 0 {
		f.log.Reset(uint64(moqt.ResetCancelled))
	}
	f.endObject()
	f.endSegments()
	f.track.cache.enforce()
}
