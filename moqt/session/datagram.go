package session

import (
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
)

// heldDatagrams are those whose Track Alias is not known yet (draft §11.3).
type heldDatagrams struct {
	deliver sync.Mutex // held while a receiver is called

	// Guarded by the session's mu.
	queue []heldDatagram
	size  int // of all, in bytes
}

type heldDatagram struct {
	object  moqt.ObjectDatagram
	size    int
	arrived time.Time
}

// receiveDatagrams takes the datagrams of the peer. Until SETUP arrives, they wait in the transport's queue.
func (s *Session) receiveDatagrams() {
	if s.awaitReady(s.ctx) != nil {
		return
	}
	for {
		b, err := s.conn.ReceiveDatagram(s.ctx)
		if err == nil {
			err = s.takeDatagram(b)
		}
		if err != nil {
			s.failUnlessEnded(err)
			return
		}
	}
}

// takeDatagram fails if the session has to end.
func (s *Session) takeDatagram(b []byte) error {
	kind, err := moqt.ParseDatagramKind(s.version, b)
	if err != nil || kind == moqt.DatagramPadding {
		return err
	}
	o, err := moqt.ParseObjectDatagram(s.version, b)
	if _, fatal := errors.AsType[*moqt.ProtocolError](err); fatal {
		return err
	}
	sub := s.findOrHold(o, len(b))
	if sub == nil {
		return nil
	}
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](err); ok {
		sub.abort(moqt.ResetMalformedTrack, malformed)
		return nil
	}
	if err != nil {
		return nil // properties that are too long to be handled
	}
	s.datagrams.deliver.Lock()
	defer s.datagrams.deliver.Unlock()
	sub.deliver(&o)
	return nil
}

// findOrHold returns the subscription of an object. If it is not known yet, the object is held for a while.
func (s *Session) findOrHold(o moqt.ObjectDatagram, size int) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, wait := s.findSubscription(o.TrackAlias)
	if wait == nil {
		sub.expectDatagrams()
		return sub
	}
	d := &s.datagrams
	now := time.Now()
	d.remove(func(h heldDatagram) bool { return now.Sub(h.arrived) > s.cfg.Hold })
	if d.size+size <= s.cfg.MaxHeldDatagrams {
		d.queue = append(d.queue, heldDatagram{o, size, now})
		d.size += size
	}
	return nil
}

// remove takes those out for which f is true.
func (d *heldDatagrams) remove(f func(heldDatagram) bool) (removed []heldDatagram) {
	d.queue = slices.DeleteFunc(d.queue, func(h heldDatagram) bool {
		if !f(h) {
			return false
		}
		removed = append(removed, h)
		d.size -= h.size
		return true
	})
	return removed
}

// flushDatagrams delivers what was held for a subscription.
func (s *Session) flushDatagrams(sub *Subscription) {
	s.datagrams.deliver.Lock()
	defer s.datagrams.deliver.Unlock()
	s.mu.Lock()
	held := s.datagrams.remove(func(h heldDatagram) bool { return h.object.TrackAlias == sub.alias })
	if len(held) > 0 {
		sub.expectDatagrams()
	}
	s.mu.Unlock()
	for _, h := range held {
		sub.deliver(&h.object)
	}
}

func (sub *Subscription) deliver(o *moqt.ObjectDatagram) {
	if sub.receiver != nil {
		sub.receiver.HandleDatagram(o)
	}
}

// expectDatagrams notes that objects of the subscription come in datagrams, with s.mu held.
func (sub *Subscription) expectDatagrams() {
	if sub != nil && sub.drain.cause == nil {
		sub.drain.datagrams = true
	}
}
