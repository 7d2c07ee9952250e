package session

import (
	"errors"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/qlog"
)

// datagrams takes the datagrams of the peer. It holds datagrams with an unknown Track Alias for Config.Hold (draft
// §11.3).
type datagrams struct {
	s *Session
	// receiving is full while a receiver is called. That may wait: behind a mutex, virtual time would stand still.
	receiving chan struct{}

	// Guarded by s.mu.
	held []heldDatagram
	size int // of all held datagrams, in bytes
}

// heldOverhead is the memory of a held datagram beside its bytes, which may be few.
const heldOverhead = 192

type heldDatagram struct {
	object    moqt.ObjectDatagram
	malformed *moqt.MalformedTrackError // ends the subscription; nil: the object is good
	size      int
	arrived   time.Time
}

// receive takes the datagrams of the peer. Until SETUP arrives, they wait in the transport's queue.
func (d *datagrams) receive() {
	s := d.s
	defer s.streams.arriving.Done()
	if s.control.awaitReady(s.conn.Context()) != nil {
		return
	}
	for {
		b, err := s.conn.ReceiveDatagram(s.ctx)
		if err == nil {
			err = d.take(b)
		}
		if err != nil {
			s.failUnlessEnded(err)
			return
		}
	}
}

// take handles a datagram. It returns an error if the session has to end.
func (d *datagrams) take(b []byte) error {
	kind, err := moqt.ParseDatagramKind(d.s.version, b)
	if err != nil || kind == moqt.DatagramPadding {
		return err
	}
	o, err := moqt.ParseObjectDatagram(d.s.version, b)
	if _, fatal := errors.AsType[*moqt.ProtocolError](err); fatal {
		return err
	}
	malformed, ok := errors.AsType[*moqt.MalformedTrackError](err)
	if err != nil && !ok {
		return nil // the properties are too long
	}
	d.s.qlog.Datagram(qlog.Parsed, &o)
	h := heldDatagram{object: o, malformed: malformed, size: len(b) + heldOverhead, arrived: time.Now()}
	if sub := d.findOrHold(h); sub != nil {
		d.receiving <- struct{}{}
		defer func() { <-d.receiving }()
		h.deliver(sub)
	}
	return nil
}

// deliver hands the object to its subscription.
func (h *heldDatagram) deliver(sub *Subscription) {
	if h.malformed != nil {
		sub.abort(moqt.ResetMalformedTrack, h.malformed)
		return
	}
	sub.deliver(&h.object)
}

// findOrHold returns the subscription of an object, or nil. If the subscription is not known yet, it holds the object.
func (d *datagrams) findOrHold(h heldDatagram) *Subscription {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	sub, wait := d.s.table.subscription(h.object.TrackAlias)
	if wait == nil {
		if sub != nil {
			sub.drain.expectDatagramsLocked()
		}
		return sub
	}
	d.removeLocked(func(older heldDatagram) bool { return h.arrived.Sub(older.arrived) > d.s.cfg.Hold })
	if d.size+h.size <= d.s.cfg.MaxHeldDatagrams {
		d.held = append(d.held, h)
		d.size += h.size
	}
	return nil
}

// removeLocked removes the held datagrams that f returns true for. s.mu is held.
func (d *datagrams) removeLocked(f func(heldDatagram) bool) (removed []heldDatagram) {
	d.held = slices.DeleteFunc(d.held, func(h heldDatagram) bool {
		if !f(h) {
			return false
		}
		removed = append(removed, h)
		d.size -= h.size
		return true
	})
	return removed
}

// flush delivers the objects that were held for a subscription.
func (d *datagrams) flush(sub *Subscription) {
	d.receiving <- struct{}{}
	defer func() { <-d.receiving }()
	d.s.mu.Lock()
	held := d.removeLocked(func(h heldDatagram) bool { return h.object.TrackAlias == sub.alias })
	if len(held) > 0 {
		sub.drain.expectDatagramsLocked()
	}
	d.s.mu.Unlock()
	for _, h := range held {
		if h.deliver(sub); h.malformed != nil {
			return
		}
	}
}
