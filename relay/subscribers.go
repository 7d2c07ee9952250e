package relay

import (
	"iter"

	"sluice/fastpath"
	"sluice/moqt"
	"sluice/track"
)

// subscribers are the downstream subscriptions of a track. All methods expect hub.mu to be held.
type subscribers struct {
	hub *hub
	all map[*downstream]struct{} // the ones that have not ended
	// waiting are requests to which the track is offered as soon as a link brings it.
	waiting map[*tracksWatch]struct{}

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

// peers yields the peers that are subscribed.
func (s *subscribers) peers() iter.Seq[*peer] {
	return func(yield func(*peer) bool) {
		for d := range s.all {
			if !yield(d.peer) {
				return
			}
		}
	}
}

// areNone reports whether nobody is or may be subscribed.
func (s *subscribers) areNone() bool { return len(s.all)+len(s.waiting) == 0 }

// haveOwn reports whether this process has a subscriber that is not a link.
func (s *subscribers) haveOwn() bool {
	for d := range s.all {
		if !d.peer.link {
			return true
		}
	}
	return false
}

// wait reports whether a subscriber of this process waits, if there is no publisher.
func (s *subscribers) wait() bool {
	for d := range s.all {
		if !d.peer.link && (d.accepted || d.waits()) {
			return true
		}
	}
	return false
}

// answer accepts or refuses the waiting subscribers, as far as the publishers allow.
func (s *subscribers) answer() {
	for d := range s.all {
		if d.accepted {
			continue
		}
		switch has := s.hub.publishers.supply(d.peer); {
		case has.forward || has.established && !d.delivery.forward:
			d.acceptLocked()
		case has.established || has.pending || d.waits():
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

// endLinks ends the subscriptions of links, if there is no publisher in this process any more.
func (s *subscribers) endLinks() {
	for d := range s.all {
		if d.peer.link && d.accepted && !s.hub.publishers.supply(d.peer).established {
			d.finishLocked(moqt.DoneGoingAway, "the publisher has left this process", nil)
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
