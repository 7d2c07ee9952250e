package wire

import (
	"cmp"
	"slices"
	"time"
)

// delayLine orders frames by the times at which they leave. It has no clock: times are ns since a common start.
type delayLine struct {
	waiting []*frame // in the order in which they leave
	lanes   map[uint16]*laneQueue
	order   uint64
}

// laneQueue is one direction of one link.
type laneQueue struct {
	delay int64 // ns
	hold  int64 // ns
	gap   int
	last  int64 // when the latest frame leaves: frames keep their order if the delay becomes shorter
	held  []*frame
}

// frame is a packet on the wire.
type frame struct {
	leave  int64
	order  uint64 // of frames that leave at the same time
	left   bool   // the delay line
	behind int    // how many frames are still to overtake it
	start  int    // of the frame in data
	end    int
	data   [frameRoom]byte
}

// frameRoom is the size of a frame's buffer: a full frame, two VLAN tags and the header in front.
const frameRoom = 1600

func newDelayLine() *delayLine { return &delayLine{lanes: make(map[uint16]*laneQueue)} }

// configure sets the delay of frames that arrive from now on, how many frames overtake a reordered one, and how long it
// waits for them.
func (d *delayLine) configure(lane uint16, delay time.Duration, gap int, hold time.Duration) {
	q := d.lanes[lane]
	if q == nil {
		q = new(laneQueue)
		d.lanes[lane] = q
	}
	q.delay, q.gap, q.hold = int64(delay), gap, int64(hold)
}

// arrive takes a frame that entered the lane at a time. It reports whether the lane is configured.
func (d *delayLine) arrive(f *frame, lane uint16, at int64, reordered bool) bool {
	q := d.lanes[lane]
	if q == nil {
		return false
	}
	if reordered {
		f.leave, f.behind = at+q.delay+q.hold, q.gap
		q.held = append(q.held, f)
		d.push(f)
		return true
	}
	f.leave = max(at+q.delay, q.last)
	q.last = f.leave
	d.push(f)
	d.overtake(q, f.leave)
	return true
}

// overtake counts a frame that leaves at a time for the frames that are held in its lane, and releases the ones that
// enough frames have overtaken.
func (d *delayLine) overtake(q *laneQueue, leave int64) {
	q.held = slices.DeleteFunc(q.held, func(h *frame) bool {
		if h.left { // after its hold
			return true
		}
		if h.behind--; h.behind > 0 {
			return false
		}
		i := d.place(h)
		d.waiting = slices.Delete(d.waiting, i, i+1)
		h.leave = min(leave, h.leave)
		d.push(h)
		return true
	})
}

// next returns when the first frame leaves; ok is false if none waits.
func (d *delayLine) next() (leave int64, ok bool) {
	if len(d.waiting) == 0 {
		return 0, false
	}
	return d.waiting[0].leave, true
}

// due removes and returns the first frame if it leaves at now or before, otherwise nil.
func (d *delayLine) due(now int64) *frame {
	if leave, ok := d.next(); !ok || leave > now {
		return nil
	}
	f := d.waiting[0]
	d.waiting, f.left = d.waiting[1:], true
	return f
}

// push puts a frame behind those that leave at the same time.
func (d *delayLine) push(f *frame) {
	d.order++
	f.order, f.left = d.order, false
	d.waiting = slices.Insert(d.waiting, d.place(f), f)
}

// place returns where a frame waits, or is to wait.
func (d *delayLine) place(f *frame) int {
	i, _ := slices.BinarySearchFunc(d.waiting, f, func(a, b *frame) int {
		return cmp.Or(cmp.Compare(a.leave, b.leave), cmp.Compare(a.order, b.order))
	})
	return i
}
