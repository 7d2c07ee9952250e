package hub

import "sluice/track"

// joiner waits for the first object of a segment that a subscriber is to get: an object that was begun before it
// subscribed is not sent (draft §5.1.2).
type joiner struct {
	delivery *delivery
	segment  *track.Segment
	from     uint64 // smallest id of that object
	reader   *track.Reader
	closed   bool // guarded by streams.mu
}

// Wake implements track.Waker.
func (j *joiner) Wake() {
	h := j.delivery.sub.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	j.lookLocked()
}

// lookLocked begins to send if the object has come; Hub.mu is held.
func (j *joiner) lookLocked() {
	v := j.delivery
	state, _ := j.segment.Log.State()
	end := j.segment.Log.End() // before Seek: what precedes it belongs to objects that Seek knows
	o, ok := v.streams.seek(j.segment, j.from)
	v.streams.mu.Lock()
	switch {
	case j.closed:
		ok = false
	case ok || state.Ended():
		delete(v.streams.of, j.segment)
	default:
		j.reader.Release(end)
	}
	v.streams.mu.Unlock()
	if ok {
		v.openStream(j.segment, o)
	}
	if ok || state.Ended() {
		v.streams.mu.Lock()
		j.closeLocked() // now that the stream holds the log
		v.streams.mu.Unlock()
	}
}

// closeLocked releases the log; streams.mu is held.
func (j *joiner) closeLocked() {
	if !j.closed {
		j.closed = true
		j.reader.Close()
	}
}
