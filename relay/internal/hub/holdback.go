package hub

import (
	"time"

	"sluice/track"
)

// Limits of the data that waits for a response. It waits for a moment only; if it takes longer, because a peer does not
// allow the relay to send, the data overtakes the response.
const (
	maxHeld     = 256         // in pieces, which are segments and datagrams
	maxHoldTime = time.Second // the logs of the segments stay in memory for so long
)

// holdBack holds a subscription's data back until the message with its alias has been handed to the transport: a peer
// has to keep, or drop, data that overtakes that message (draft §11.4.2). Its methods expect Hub.mu to be held.
type holdBack struct {
	active bool
	held   []heldData
}

// heldData is data that waits.
type heldData struct {
	send func()
	pin  *track.Reader // keeps the segment's log, which may end meanwhile; nil for a datagram
}

// do calls send: now, or when the data is released. seg is the segment that it sends from the object from on, nil if it
// sends a datagram.
func (b *holdBack) do(send func(), seg *track.Segment, from uint64) {
	if b.active && len(b.held) == maxHeld {
		b.release()
	}
	if b.active {
		b.held = append(b.held, heldData{send, pin(seg, from)})
		return
	}
	send()
}

// pin keeps the bytes of a segment from an object on.
func pin(seg *track.Segment, from uint64) *track.Reader {
	if seg == nil {
		return nil
	}
	start := seg.Log.End()
	if o, ok := seg.Log.Seek(from); ok {
		start = o.Start
	}
	r, err := seg.Log.NewReader(start, nil)
	if err != nil {
		return nil // the bytes are gone
	}
	return r
}

// release sends the data that was held back, in its order.
func (b *holdBack) release() {
	b.active = false
	for _, d := range b.held {
		d.send()
	}
	b.discard()
}

// discard forgets the data that is held back.
func (b *holdBack) discard() {
	for _, d := range b.held {
		if d.pin != nil {
			d.pin.Close()
		}
	}
	b.held = nil
}
