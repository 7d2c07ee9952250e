package relay

import (
	"sluice/fastpath"
	"sluice/moqt"
	"sluice/track"
)

// subscribers are the downstream subscriptions of a track. All methods expect hub.mu to be held.
type subscribers struct {
	hub *hub
	all map[*downstream]struct{} // the ones that have not ended

	established int // how many of them are Established
}

// count counts a subscription that is Established now, and reports the first one.
func (s *subscribers) count(d *downstream) {
	if s.established++; s.established == 1 {
		d.peer.emit(EventFirstSubscriber, &s.hub.name, nil)
	}
}

// uncount is the reverse of count. It reports when the last one has left.
func (s *subscribers) uncount(d *downstream) {
	if s.established--; s.established == 0 {
		d.peer.emit(EventLastSubscriber, &s.hub.name, nil)
	}
}

func (s *subscribers) has(p *peer) bool {
	for d := range s.all {
		if d.peer == p {
			return true
		}
	}
	return false
}

// wantObjects reports whether a subscriber wants objects.
func (s *subscribers) wantObjects() bool {
	for d := range s.all {
		if d.delivery.forward || d.resumes {
			return true
		}
	}
	return false
}

// answer accepts or refuses the waiting subscribers, as far as the publishers allow.
func (s *subscribers) answer() {
	publishers := &s.hub.publishers
	established, forward := publishers.areEstablished(), publishers.forward()
	for d := range s.all {
		switch {
		case d.accepted:
		case forward || established && !d.delivery.forward:
			d.acceptLocked()
		case established || len(publishers.of) > 0 || d.waits():
			// Wait: objects may flow soon, a publisher may accept, or one may come.
		default:
			d.refuseLocked(d.unavailableLocked())
		}
	}
}

// sendSegment sends a new segment to the subscribers that want it.
func (s *subscribers) sendSegment(seg *track.Segment) {
	for d := range s.all {
		if d.accepted {
			d.delivery.send(seg, seg.First)
		}
	}
}

// sendDatagram sends an object to the subscribers that want it, except those in sent.
func (s *subscribers) sendDatagram(o *track.Datagram, sent []fastpath.Subscriber) {
	for d := range s.all {
		if d.accepted && !d.isAmong(sent) {
			d.delivery.sendDatagram(o)
		}
	}
}

// endAll ends all subscriptions. Streams are completed first, or reset with a code if there is one.
func (s *subscribers) endAll(code moqt.PublishDoneCode, reason string, reset *moqt.StreamResetCode) {
	for d := range s.all {
		if d.accepted {
			d.finishLocked(code, reason, reset)
		} else {
			d.refuseLocked(&moqt.RequestError{Code: refusalOf(code), Reason: reason})
		}
	}
}
