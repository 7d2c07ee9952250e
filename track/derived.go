package track

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/moqt"
)

// maxDerived is how many segments are derived from one at a time. Those that nobody reads make room for others.
const maxDerived = 64

// derived makes a segment of those objects of another one that pass Range Filters. It copies them when they come, on
// the goroutine that writes the other one's log.
type derived struct {
	from    *Segment
	segment *Segment
	stopped atomic.Bool // nobody reads the segment, and nobody will

	mu     sync.Mutex // one goroutine copies at a time
	in     *Reader    // of from.Log; nil when nothing more will be copied
	off    int64      // bytes of from.Log before it were dealt with
	object Object     // whose payload off lies in, if begun
	begun  bool
	passes bool // object does
}

// Derive returns the segment with those objects of s that pass filters: s itself if all do, or nil if none does, or
// there is no room, or the bytes are gone. Subscribers with the same filters share the segment, which is kept for as
// long as it is read: the caller opens its readers before it calls release. copied is how many bytes of s were looked
// at to make the segment.
func (s *Segment) Derive(filters moqt.RangeFilters) (seg *Segment, copied int64, release func()) {
	filters, some := filters.ForSubgroup(s.Subgroup, s.Priority, s.HasProperties)
	switch {
	case !some:
		return nil, 0, nil
	case len(filters) == 0:
		return s, 0, func() {}
	}
	s.track.deriving.Lock()
	defer s.track.deriving.Unlock()
	if seg, guard := s.findDerived(filters); guard != nil {
		return seg, 0, guard.Close
	}
	d, guard, err := newDerived(s, filters)
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

// Has reports whether the segment has what Derive selects for filters.
func (s *Segment) Has(filters moqt.RangeFilters) bool {
	filters, some := filters.ForSubgroup(s.Subgroup, s.Priority, s.HasProperties)
	return some && filters.Equal(s.filters)
}

// findDerived returns a segment that was derived before, and a Reader that keeps it.
func (s *Segment) findDerived(filters moqt.RangeFilters) (*Segment, *Reader) {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	for _, d := range s.derived {
		if d.segment.filters.Equal(filters) {
			if guard, err := d.segment.Log.newReaderOfAll(nil); err == nil {
				return d.segment, guard
			}
		}
	}
	return nil, nil
}

// newDerived returns a derived whose segment is empty yet, and a Reader that keeps it.
func newDerived(s *Segment, filters moqt.RangeFilters) (*derived, *Reader, error) {
	seg := &Segment{
		Log: NewLog(0, s.Log.chunks.mem), Group: s.Group, Subgroup: s.Subgroup, Priority: s.Priority,
		First: s.First, FirstObject: s.FirstObject, HasProperties: s.HasProperties,
		track: s.track, filters: filters,
	}
	d := &derived{from: s, segment: seg}
	d.mu.Lock()
	defer d.mu.Unlock()
	in, err := s.Log.newReaderOfAll(d)
	if err != nil {
		return nil, nil, err
	}
	d.in, d.off = in, max(s.Start, in.low.off)
	if o, ok := s.Log.Covering(d.off); ok && o.Start < d.off {
		d.off = o.End // its first bytes are gone
	}
	guard, err := seg.Log.newReaderOfAll(nil)
	return d, guard, err
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
	if len(s.derived) >= maxDerived {
		g.stopUnread(s)
	}
	if len(s.derived) >= maxDerived {
		t.cache.trims.Add(1)
		return false
	}
	s.derived = append(s.derived, d)
	g.derived++
	g.recount()
	return true
}

// stopUnread forgets the segments derived from s that nobody reads; Track.mu is held.
func (g *group) stopUnread(s *Segment) {
	before := len(s.derived)
	s.derived = slices.DeleteFunc(s.derived, func(d *derived) bool {
		if d.segment.Log.isRead() {
			return false
		}
		d.stop()
		return true
	})
	g.derived -= before - len(s.derived)
}

// stopAllUnread forgets the derived segments of the group that nobody reads; Track.mu is held.
func (g *group) stopAllUnread() {
	if g.derived == 0 {
		return
	}
	for _, s := range g.segments {
		g.stopUnread(s)
	}
	g.recount()
}

// stop ends the copying, with the next bytes that come, and keeps nothing.
func (d *derived) stop() {
	d.stopped.Store(true)
	d.segment.Log.Discard(math.MaxInt64)
}

// Wake implements Waker: it copies what has come.
func (d *derived) Wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.in == nil {
		return
	}
	state, code := d.from.Log.State()
	if d.stopped.Load() {
		state, code = Reset, uint64(moqt.ResetCancelled)
	} else if err := d.copyObjects(); err != nil {
		state, code = Reset, uint64(moqt.ResetInternalError)
	}
	out := d.segment.Log
	out.came.Store(d.from.Log.came.Load())
	if out.Written() > out.End() {
		out.Commit(out.Written())
	}
	switch state {
	case Open:
		return
	case Finished:
		out.Finish()
	case Reset:
		out.Reset(code)
	}
	d.in.Close()
	d.in = nil
}

// copyObjects copies the objects that have come, as far as they have. mu is held, as for begin.
func (d *derived) copyObjects() error {
	for {
		end := d.from.Log.End()
		if !d.begun {
			if ok, err := d.begin(end); !ok || err != nil {
				return err
			}
		}
		to := min(end, d.object.End)
		for d.passes && d.off < to {
			v := d.in.View(d.off, int(to-d.off))
			d.segment.Log.write(v)
			d.off += int64(len(v))
		}
		d.off = to
		d.in.Release(d.off)
		if d.off < d.object.End {
			return nil
		}
		d.begun = false
	}
}

// begin deals with the fields of the next object that precede its payload. It reports false if they have not come.
func (d *derived) begin(end int64) (bool, error) {
	o, ok := d.from.Log.Covering(d.off)
	if !ok || end < o.PayloadStart {
		return false, nil
	}
	var properties moqt.Properties
	if o.PropertiesLen > 0 {
		properties = make(moqt.Properties, o.PropertiesLen)
		d.in.ReadAt(properties, o.PropertiesStart)
	}
	d.object, d.begun, d.off = o, true, o.PayloadStart
	d.passes = d.segment.filters.Pass(&moqt.FilteredObject{
		Subgroup: d.from.Subgroup, ID: o.ID, Priority: d.from.Priority, Properties: properties,
	})
	if !d.passes {
		return true, nil
	}
	return true, d.segment.addHeader(o, properties)
}
