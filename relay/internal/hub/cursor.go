package hub

import (
	"math"

	"sluice/claim"
	"sluice/media"
	"sluice/moqt/qlog"
	"sluice/track"
)

// cursor is how far a subscriber has come in a segment. While it waits, for an object or for the response to the
// subscriber's request, a reader keeps the log. Then a stream does. If that is severed, another cursor goes on.
type cursor struct {
	delivery *delivery
	segment  *track.Segment

	// Guarded by Hub.mu.
	next   uint64        // smallest id of the objects that are still to be sent
	reader *track.Reader // nil: it does not wait
	stream MediaStream   // that was opened last, or nil

	severed bool // the stream was, and goOn is still to come; guarded by streams.mu
}

// attach sets what keeps the log; Hub.mu is held. A reader that has kept it until now is closed.
func (c *cursor) attach(r *track.Reader, stream MediaStream) {
	if c.reader != nil {
		c.reader.Close()
	}
	c.reader, c.stream = r, stream
}

// remove removes a cursor that has nothing more to send; Hub.mu is held.
func (c *cursor) remove() {
	c.attach(nil, nil)
	c.delivery.streams.remove(c)
}

// await has a reader keep the log until the next object has come, and may be sent; Hub.mu is held.
func (c *cursor) await() {
	v, log := c.delivery, c.segment.Log
	start := log.End()
	if o, _, ok := v.streams.seek(c.segment, c.next); ok {
		start = o.Start
	}
	r, err := log.NewReader(start, c)
	if err != nil { // the bytes are gone
		c.remove()
		return
	}
	c.attach(r, nil)
	if !v.held {
		c.look() // the object may have come before the reader existed
	}
}

// Wake implements track.Waker.
func (c *cursor) Wake() {
	v := c.delivery
	h := v.sub.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !v.held && c.reader != nil {
		c.look()
	}
}

// look opens a stream if the next object has come. It reports false if the object may still come; Hub.mu is held.
func (c *cursor) look() (over bool) {
	v, log := c.delivery, c.segment.Log
	s := &v.streams
	if why, yes := s.isClosed(c.segment, c.next); yes {
		if leavesOut(why) {
			refused(c.segment, c.next).log("objects are left out", v.sub)
		}
		c.remove()
		return true
	}
	state, _ := log.State()
	end := log.End() // before seek: what precedes it belongs to objects that seek knows
	o, sent, ok := s.seek(c.segment, c.next)
	switch {
	case ok && (state != track.Reset || end >= o.End):
		c.open(o, sent)
	case ok, state.Ended(): // the object, or its end, will not come
		c.remove()
	default:
		if c.reader != nil {
			c.reader.Release(end)
		}
		return false
	}
	return true
}

// open opens a stream that begins with object o; Hub.mu is held. The log was sent up to an offset before.
func (c *cursor) open(o track.Object, sent int64) {
	v := c.delivery
	if sent > o.Start {
		Omission{
			Group: c.segment.Group, Subgroup: c.segment.Subgroup, From: o.ID, Sent: sent - o.Start,
			Why: media.Severed, Received: o.Received,
		}.log("objects may come twice", v.sub)
	}
	c.next = o.ID
	stream, err := v.media.OpenStream(c.config(o))
	if err != nil {
		c.remove()
		return
	}
	c.attach(nil, stream)
}

// config describes a stream that begins with object o.
func (c *cursor) config(o track.Object) media.StreamConfig {
	v, seg := c.delivery, c.segment
	source, _ := seg.Log.First.Owner.(*arriving)
	var onOpen func(id int64)
	if q := v.sub.peer.QLog; q != nil {
		onOpen = func(id int64) { q.Subgroup(qlog.Created, id, headerOf(seg, o, v.sub.pub.Alias())) }
	}
	return media.StreamConfig{
		Prefix:          v.prefix(seg, o),
		Log:             seg.Log,
		Start:           o.IDEnd,
		Group:           seg.Group,
		Subgroup:        seg.Subgroup,
		Priority:        seg.Priority,
		PublisherStream: source.publisherStream(seg, v.sub),
		GoesOn: func(o *track.Origin) *claim.PublisherStream {
			source, _ := o.Owner.(*arriving)
			return source.goOn(seg, v.sub)
		},
		Timeouts: v.sub.hub.description.timeoutsOf(seg),
		OnOpen:   onOpen,
		OnDone:   func(res media.Result) { c.ended(o, res) },
	}
}

// ended is called when the stream, which began with object o, sends nothing more.
func (c *cursor) ended(o track.Object, res media.Result) {
	v := c.delivery
	v.sub.hub.directory.Counters.Streams.WithLabelValues(res.Outcome.String()).Inc()
	v.logOmission(c.segment, o, res)
	if v.streams.ended(c, res) {
		v.sub.hub.directory.Tasks.Go(func() { c.goOn(res.Severed) })
	} else {
		v.streams.sendDone()
	}
}

// goOn sends the rest of the segment on another stream: from the log offset on where the publisher's has broken off.
func (c *cursor) goOn(at int64) {
	v, log := c.delivery, c.segment.Log
	h := v.sub.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c.remove()
	last, _ := log.Last() // before Covering: an object that is added now is found by one of them
	if o, ok := log.Covering(at); ok {
		v.send(c.segment, max(o.ID, c.next))
	} else if last.ID < math.MaxUint64 {
		v.send(c.segment, max(last.ID+1, c.next))
	}
	if v.sub.over { // only what the log holds
		v.streams.stopWaiting()
	}
	v.streams.sendDone()
}
