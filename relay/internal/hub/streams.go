package hub

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/track"
)

// maxClosed is how many subgroups that must not be sent again a subscription remembers. Older subgroups rarely get
// objects.
const maxClosed = 64

// Limits of the streams of a subscription that are open, or wait until they are. A publisher may have a stream for each
// object: maxStreams are more than the cache holds of a group. The first ones do not count for the quota of the
// account, so that viewers go on to watch, whatever others behind their address do.
const (
	maxStreams  = 8192
	freeStreams = 8
)

// streams are the subgroup streams of a downstream subscription. The media sender calls back with Hub.mu held or not,
// so the fields that callbacks change have a lock of their own.
type streams struct {
	pub     *session.Publication
	payers  charge.Payers
	filling sync.WaitGroup // fills that are being served

	mu     sync.Mutex
	of     map[*track.Segment]*cursor        // without those whose stream was stopped
	open   int                               // cursors, also those whose stream the media sender still stops
	full   bool                              // there were too many, so the subscription ends
	closed []closedSubgroup                  // the latest ones (draft §8, §11.4.3)
	sent   map[*track.Segment]sentTo         // how far streams that were stopped were sent, beyond their logs
	fills  map[*session.FillRequest]struct{} // those whose streams are open
	done   *moqt.PublishDone
}

// subgroupID names a subgroup among those of all publishers: one that was restarted begins a track anew.
type subgroupID struct {
	track           *track.Track
	group, subgroup uint64
}

func idOf(seg *track.Segment) subgroupID { return subgroupID{seg.Track(), seg.Group, seg.Subgroup} }

// closedSubgroup is a subgroup whose objects from first on the subscriber does not get. why says how its stream ended.
type closedSubgroup struct {
	subgroupID
	first uint64
	why   media.Outcome
}

// sentTo is a log offset, and the publisher's stream whose bytes were sent up to there.
type sentTo struct {
	offset int64
	origin *track.Origin
}

func newStreams(pub *session.Publication, ps charge.Payers) streams {
	return streams{
		pub: pub, payers: ps, of: make(map[*track.Segment]*cursor), sent: make(map[*track.Segment]sentTo),
		fills: make(map[*session.FillRequest]struct{}),
	}
}

// add adds a cursor, unless its segment has one or there are too many. Then the subscription ends.
func (s *streams) add(c *cursor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[c.segment] != nil || s.full {
		return false
	}
	if s.open == maxStreams {
		s.full = true
		c.delivery.endLater(moqt.DoneTooFarBehind, moqt.ResetTooFarBehind)
		return false
	}
	if s.open >= freeStreams && s.payers.Take(charge.StreamsOpen) != nil {
		s.full = true
		c.delivery.endLater(moqt.DoneExcessiveLoad, moqt.ResetExcessiveLoad)
		return false
	}
	s.of[c.segment] = c
	s.open++
	return true
}

// remove removes a cursor that has nothing more to send.
func (s *streams) remove(c *cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(c)
}

func (s *streams) removeLocked(c *cursor) {
	if s.of[c.segment] == c {
		delete(s.of, c.segment)
	}
	if s.open > freeStreams {
		s.payers.Give(charge.StreamsOpen)
	}
	s.open--
}

// isClosed reports whether the objects of a segment from one on must not be sent, because of how the stream of its
// subgroup has ended.
func (s *streams) isClosed(seg *track.Segment, from uint64) (why media.Outcome, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.closed, func(c closedSubgroup) bool { return c.subgroupID == idOf(seg) && from >= c.first })
	if i < 0 {
		return 0, false
	}
	return s.closed[i].why, true
}

// ended is called when the stream of a cursor sends nothing more. It reports whether another one has to go on.
func (s *streams) ended(c *cursor, res media.Result) (goesOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if res.ID >= 0 {
		s.pub.AddStreams(1)
	}
	if res.Outcome == media.Severed && s.of[c.segment] == c {
		c.severed = true
		return true
	}
	s.removeLocked(c)
	state, _ := c.segment.Log.State()
	closed := closedSubgroup{subgroupID: idOf(c.segment), why: res.Outcome}
	over := res.Outcome == media.Delivered && !state.Ended() // the fast path is ahead: the end may come again
	if over {
		closed.first = c.segment.First // what precedes it is on another stream
	}
	switch res.Outcome {
	case media.Stopped, media.ObjectTimedOut, media.SubgroupTimedOut, media.Unacknowledged, media.Dropped:
		over = true
	}
	if over {
		if len(s.closed) == maxClosed {
			s.closed = slices.Delete(s.closed, 0, 1)
		}
		s.closed = append(s.closed, closed)
	}
	return false
}

// isFinishing reports whether PUBLISH_DONE is due once the streams have ended.
func (s *streams) isFinishing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done != nil
}

// areOpen reports whether a segment is being sent, or will be, or a stream has not ended yet.
func (s *streams) areOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0
}

// forget allows all subgroups to be sent again.
func (s *streams) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = nil
}

// stop resets the streams of unwanted segments, and removes cursors that wait; Hub.mu is held.
func (s *streams) stop(unwanted func(*track.Segment) bool) {
	for _, c := range s.cursors() {
		switch {
		case !unwanted(c.segment):
		case c.reader != nil:
			c.remove()
		default:
			s.stopped(c, c.stream.Reset(uint64(moqt.ResetCancelled)))
		}
	}
}

// stopped notes that a stream was stopped, and up to which log offset it was sent, if the fast path was ahead of the
// log. The segment may be sent again at once, although the media sender reports later that the stream has ended.
func (s *streams) stopped(c *cursor, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.severed { // it had ended: see cursor.goOn
		return
	}
	if s.of[c.segment] == c {
		delete(s.of, c.segment)
	}
	maps.DeleteFunc(s.sent, func(seg *track.Segment, _ sentTo) bool {
		state, _ := seg.Log.State()
		return state.Ended()
	})
	if at > c.segment.Log.End() {
		s.sent[c.segment] = sentTo{at, c.segment.Log.Origin()}
	}
}

// stopWaiting removes the cursors that wait; Hub.mu is held.
func (s *streams) stopWaiting() {
	for _, c := range s.cursors() {
		if c.reader != nil {
			c.remove()
		}
	}
}

// seek returns the first object of a segment that has an id of at least from, and was not sent whole on a stream that
// was stopped. What follows a cut was not sent. sent is up to which log offset such a stream was sent, or 0 if the log
// has all of that.
func (s *streams) seek(seg *track.Segment, from uint64) (o track.Object, sent int64, ok bool) {
	s.mu.Lock()
	stopped := s.sent[seg]
	s.mu.Unlock()
	at := stopped.offset
	if stopped.origin != nil {
		if cut, severed := stopped.origin.Severed(); severed {
			at = min(at, cut)
		}
	}
	o, ok = seg.Log.Seek(from)
	for ok && o.End <= at && o.ID < math.MaxUint64 {
		o, ok = seg.Log.Seek(o.ID + 1)
	}
	return o, stopped.offset, ok
}

// cursors returns the cursors by the age of their segments, the oldest first.
func (s *streams) cursors() []*cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.of), func(a, b *cursor) int {
		x, y := a.segment, b.segment
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Subgroup, y.Subgroup))
	})
}

// fill enters a fill until it has been served.
func (s *streams) fill(f *session.FillRequest, serve func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fills[f] = struct{}{}
	s.filling.Go(func() {
		serve()
		s.mu.Lock()
		delete(s.fills, f)
		s.mu.Unlock()
		s.sendDone()
	})
}

// stopFills resets the streams of fills.
func (s *streams) stopFills() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.fills {
		_ = f.Done() // never fails
	}
}

// finish sends PUBLISH_DONE when the last stream has ended.
func (s *streams) finish(done *moqt.PublishDone) {
	s.mu.Lock()
	s.done = done
	s.mu.Unlock()
}

// sendDone sends PUBLISH_DONE if it is due and no stream is open.
func (s *streams) sendDone() {
	s.mu.Lock()
	done := s.done
	if done == nil || s.open+len(s.fills) > 0 {
		s.mu.Unlock()
		return
	}
	s.done = nil
	s.mu.Unlock()
	_ = s.pub.Done(done.Status, done.Reason) // fails only if the peer has ended it
}
