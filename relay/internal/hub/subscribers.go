package hub

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"sluice/fastpath"
	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/track"
)

// subscribers are the downstream subscriptions of a track. All methods expect Hub.mu to be held.
type subscribers struct {
	hub *Hub
	all map[*downstream]struct{} // the ones that have not ended
	// waiting are requests to which the track is offered as soon as a link brings it.
	waiting map[*TracksWatch]struct{}
}

// where yields the subscribers that satisfy is.
func (s *subscribers) where(is func(*downstream) bool) iter.Seq[*downstream] {
	return where(maps.Keys(s.all), is)
}

// have reports whether a subscriber satisfies is.
func (s *subscribers) have(is func(*downstream) bool) bool { return some(maps.Keys(s.all), is) }

// wantObjects reports whether a subscriber wants objects.
func (s *subscribers) wantObjects() bool { return s.have(wantsObjects) }

func wantsObjects(d *downstream) bool { return d.delivery.forward || d.resumes }

// areInReserve reports whether all subscribers are renditions that are not served, here or at a relay that subscribes.
func (s *subscribers) areInReserve() bool {
	return len(s.waiting) == 0 && !s.have(func(d *downstream) bool {
		return !d.peer.Hops && d.pub.Parameters().Rendition == nil || wantsObjects(d)
	})
}

// areNone reports whether nobody is or may be subscribed.
func (s *subscribers) areNone() bool { return len(s.all)+len(s.waiting) == 0 }

// reach reports whether a subscriber may get tracks from a distance.
func (s *subscribers) reach(from Distance) bool {
	return s.have(func(d *downstream) bool { return d.peer.Reach >= from })
}

// wait reports whether a subscriber of this process's own waits, if there is no publisher.
func (s *subscribers) wait() bool {
	return s.have(func(d *downstream) bool { return d.peer.From == Here && (d.accepted || d.waits()) })
}

// since returns the first group that one of those may have missed who get the track already, and may get it from a
// distance; MaxUint64 if there is none. Earlier groups are of the time before they subscribed.
func (s *subscribers) since(from Distance) uint64 {
	first := uint64(math.MaxUint64)
	for d := range s.where(func(d *downstream) bool { return d.accepted && d.peer.Reach >= from }) {
		first = min(first, d.since)
	}
	return first
}

// patience is how long the subscribers of this process's own wait for a publisher.
func (s *subscribers) patience() (longest time.Duration) {
	for d := range s.where(func(d *downstream) bool { return d.peer.From == Here }) {
		wait := time.Until(d.until)
		if d.accepted {
			wait = s.hub.directory.Grace
		}
		longest = max(longest, wait)
	}
	return longest
}

// pathTo returns what a request to a peer has come through: of those subscribers that may use the peer, the one that is
// nearest. It returns false if there is none. Hub.mu is held.
func (s *subscribers) pathTo(p *Peer) (path moqt.HopPath, ok bool) {
	if len(s.waiting) > 0 {
		return nil, true
	}
	for d := range s.where(func(d *downstream) bool { return d.asker().mayUse(p) && len(d.path) < moqt.MaxHops }) {
		if !ok || len(d.path) < len(path) {
			path, ok = d.path, true
		}
	}
	return path, ok
}

// answer accepts or refuses the waiting subscribers, as far as the publishers allow.
func (s *subscribers) answer() {
	for d := range s.where(func(d *downstream) bool { return !d.accepted }) {
		switch has := s.hub.publishers.supply(d.asker()); {
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

// endRelayed ends the subscriptions of neighbours and of other relays that no publisher may feed any more.
func (s *subscribers) endRelayed() {
	for d := range s.where((*downstream).isCutOffLocked) {
		d.finishLocked(moqt.DoneGoingAway, "the publisher has left this process", nil)
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

// checkRangeFilters refuses the Range Filters and the range of a peer's subscription, which is d or a new one, if the
// subscriptions to the track have too many different filters.
func (s *subscribers) checkRangeFilters(
	p *Peer, d *downstream, filters moqt.RangeFilters, wanted moqt.Range,
) *moqt.RequestError {
	all := addFilters(nil, filters, wanted)
	if len(all) == 0 {
		return nil
	}
	own := slices.Clone(all)
	for o := range s.where(func(o *downstream) bool { return o != d && o.accepted }) {
		all = addFilters(all, o.delivery.selection.filters, o.delivery.selection.passing)
		if o.peer.Address == p.Address {
			own = addFilters(own, o.delivery.selection.filters, o.delivery.selection.passing)
		}
	}
	if len(all) <= maxFilters && len(own) <= maxFiltersOfAddress {
		return nil
	}
	refused := &moqt.RequestError{Code: moqt.RequestExcessiveLoad, Reason: fmt.Sprintf(
		"the subscriptions to the track have too many different range filters and ends within groups: at most %d, and "+
			"%d from one address",
		maxFilters, maxFiltersOfAddress,
	)}
	refused.SetRetry(charge.Burst)
	return refused
}

// Limits of the different Range Filters that the subscriptions to a track have at a time: see addFilters. Each may cost
// a copy of the objects that pass.
const (
	maxFilters          = 32
	maxFiltersOfAddress = 8 // of the subscribers with one source address
)

// addFilters adds to list the Range Filters for which the relay may have to copy objects of a subscription, unless they
// are there. The end of the wanted range within a group counts among them: see selection.formIn.
func addFilters(list []moqt.RangeFilters, filters moqt.RangeFilters, wanted moqt.Range) []moqt.RangeFilters {
	for _, f := range []moqt.RangeFilters{filters, filters.UpTo(wanted.End.Object)} {
		if len(f) > 0 && !slices.ContainsFunc(list, f.Equal) {
			list = append(list, f)
		}
	}
	return list
}
