package track

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"

	"sluice/moqt"
)

// maxDerived is how many segments are derived from one for Range Filters at a time, and how many only for the layout:
// filters leave room for those who have none. Segments that nobody reads make room for others.
const maxDerived = 64

// canonical is the layout of all logs but derived ones.
const canonical = moqt.DataLayout1

// Form says what a subscriber gets of a segment. The zero value is all objects as they are held.
type Form struct {
	Filters moqt.RangeFilters // which the objects have to pass
	Layout  moqt.DataLayout   // of the subscriber's version; 0 is DataLayout1
}

// of returns f as far as a segment is not in it already, and false if nothing of the segment can be.
func (f Form) of(s *Segment) (Form, bool) {
	filters, some := f.Filters.ForSubgroup(s.Subgroup, s.Priority, s.HasProperties)
	f = Form{filters, cmp.Or(f.Layout, canonical)}
	return f, some && max(s.Group, s.Subgroup) <= f.Layout.MaxNumber()
}

// isPlain reports whether segments are in this form if they are not derived.
func (f Form) isPlain() bool { return len(f.Filters) == 0 && cmp.Or(f.Layout, canonical) == canonical }

func (f Form) equal(other Form) bool {
	return f.Filters.Equal(other.Filters) && cmp.Or(f.Layout, canonical) == cmp.Or(other.Layout, canonical)
}

// derived makes a segment in another form. It copies the objects when they come, on the goroutine that writes the log
// of the segment that it makes it from.
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

// newDerived returns a derived whose segment is empty yet, and a Reader that keeps it.
func newDerived(s *Segment, form Form) (*derived, *Reader, error) {
	seg := &Segment{
		Log: NewLog(0, s.Log.chunks.mem), Group: s.Group, Subgroup: s.Subgroup, Priority: s.Priority,
		First: s.First, FirstObject: s.FirstObject, HasProperties: s.HasProperties,
		ObjectTimeout: s.ObjectTimeout, SubgroupTimeout: s.SubgroupTimeout,
		track: s.track, form: form,
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
	out := d.segment.Log
	state, code := d.from.Log.State()
	if d.stopped.Load() || state == Open && !out.resume() {
		state, code = Reset, uint64(moqt.ResetCancelled)
	} else if err := d.copyObjects(); err != nil {
		state, code = Reset, uint64(moqt.ResetInternalError)
	}
	out.came.Store(d.from.Log.came.Load())
	if out.Written() > out.End() {
		out.Commit(out.Written())
	}
	switch state {
	case Open:
		return
	case Cut:
		out.Cut()
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
	properties := make(moqt.Properties, o.PropertiesLen)
	d.in.ReadAt(properties, o.PropertiesStart)
	d.object, d.begun, d.off = o, true, o.PayloadStart
	d.passes = d.segment.form.Filters.Pass(&moqt.FilteredObject{
		Subgroup: d.from.Subgroup, ID: o.ID, Priority: d.from.Priority, Properties: properties,
	})
	if !d.passes {
		return true, nil
	}
	return true, d.segment.writeHeader(o, properties)
}
