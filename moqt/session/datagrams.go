package session

import (
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
)

// datagrams takes the datagrams of the peer. It holds datagrams with an unknown Track Alias for Timeouts.Hold (draft
// §11.3).
type datagrams struct {
	s         *Session
	receiving sync.Mutex // held while a receiver is called

	// Guarded by s.mu.
	held []heldDatagram
	size int // of all held datagrams, in bytes
}

type heldDatagram struct {
	object  moqt.ObjectDatagram
	size    int
	arrived time.Time
}

// receive takes the datagrams of the peer. Until SETUP arrives, they wait in the transport's queue.
func (d *datagrams) receive() {
	s := d.s
	if s.control.awaitReady(s.ctx) != nil {
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
	sub := d.findOrHold(o, len(b))
	if sub == nil {
		return nil
	}
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](err); ok {
		sub.abort(moqt.ResetMalformedTrack, malformed)
		return nil
	}
	if err != nil {
		return nil // the properties are too long
	}
	d.receiving.Lock()
	defer d.receiving.Unlock()
	sub.deliver(&o)
	return nil
}

// findOrHold returns the subscription of an object, or nil. If the subscription is not known yet, it holds the object.
func (d *datagrams) findOrHold(o moqt.ObjectDatagram, size int) *Subscription {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	sub, wait := d.s.table.subscription(o.TrackAlias)
	if wait == nil {
		if sub != nil {
			sub.drain.expectDatagramsLocked()
		}
		return sub
	}
	now := time.Now()
	d.removeLocked(func(h heldDatagram) bool { return now.Sub(h.arrived) > d.s.cfg.Hold })
	if d.size+size <= d.s.cfg.MaxHeldDatagrams {
		d.held = append(d.held, heldDatagram{o, size, now})
		d.size += size
	}
	return nil
}

// removeLocked removes the held datagrams for which f returns true. s.mu is held.
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
	d.receiving.Lock()
	defer d.receiving.Unlock()
	d.s.mu.Lock()
	held := d.removeLocked(func(h heldDatagram) bool { return h.object.TrackAlias == sub.alias })
	if len(held) > 0 {
		sub.drain.expectDatagramsLocked()
	}
	d.s.mu.Unlock()
	for _, h := range held {
		sub.deliver(&h.object)
	}
}
