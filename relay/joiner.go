package relay

import "sluice/track"

// joiner waits for the first object of a segment that a subscriber is to get: one that was begun before it subscribed is not (draft §5.1.2).
type joiner struct {
	downstream *downstream
	segment    *track.Segment
	from       uint64 // smallest id of that object
	reader     *track.Reader
	closed     bool // guarded by downstream.mu
}

// await sends a segment from object from on, when that has come; hub.mu is held.
func (d *downstream) await(seg *track.Segment, from uint64) {
	j := &joiner{downstream: d, segment: seg, from: from}
	r, err := seg.Log.NewReader(seg.Log.End(), j)
	if err != nil {
		return
	}
	d.mu.Lock()
	j.reader = r
	d.deliveries[seg] = &delivery{joiner: j}
	d.mu.Unlock()
	j.look() // it may have come before the reader was there
}

// Wake implements track.Waker.
func (j *joiner) Wake() {
	h := j.downstream.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	j.look()
}

// look begins to send if the object has come; hub.mu is held.
func (j *joiner) look() {
	d := j.downstream
	state, _ := j.segment.Log.State()
	end := j.segment.Log.End() // before Seek: what precedes it belongs to objects that Seek knows
	o, ok := j.segment.Log.Seek(j.from)
	d.mu.Lock()
	switch {
	case j.closed:
		ok = false
	case ok || state != track.Open:
		delete(d.deliveries, j.segment)
	default:
		j.reader.Release(end)
	}
	d.mu.Unlock()
	if ok {
		d.send(j.segment, o)
	}
	if ok || state != track.Open {
		d.mu.Lock()
		j.close() // now that the stream holds the log
		d.mu.Unlock()
	}
}

// close releases the log; downstream.mu is held.
func (j *joiner) close() {
	if !j.closed {
		j.closed = true
		j.reader.Close()
	}
}
