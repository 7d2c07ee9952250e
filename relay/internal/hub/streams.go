package hub

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
)

// maxClosed is how many subgroups that must not be sent again a subscription remembers. Older subgroups rarely get
// objects.
const maxClosed = 64

// streams are the subgroup streams of a downstream subscription. The media sender calls back with Hub.mu held or not,
// so the fields that callbacks change have a lock of their own.
type streams struct {
	pub *session.Publication

	mu     sync.Mutex
	of     map[*track.Segment]*outgoing
	ending int                               // streams that were stopped, which the media sender still has, and rests
	closed []closedSubgroup                  // the latest ones (draft §8, §11.4.3)
	sent   map[*track.Segment]sentTo         // how far streams that were stopped were sent, beyond their logs
	opened uint64                            // how many streams were
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

// outgoing is a segment that is being sent, or that will be when an object of it comes.
type outgoing struct {
	stream MediaStream // nil while it is being opened, or while
	joiner *joiner     // waits
}

// sentTo is a log offset, and the publisher's stream whose bytes were sent up to there.
type sentTo struct {
	offset int64
	origin *track.Origin
}

// knows reports whether a segment is being sent, or must not be from an object on. Then why is how the stream of its
// subgroup has ended.
func (s *streams) knows(seg *track.Segment, from uint64) (why media.Outcome, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.closed, func(c closedSubgroup) bool { return c.subgroupID == idOf(seg) && from >= c.first })
	if i >= 0 {
		return s.closed[i].why, true
	}
	return media.Delivered, s.of[seg] != nil
}

// open opens a stream for a segment. open has to give ended to the media sender.
func (s *streams) open(seg *track.Segment, open func(ended func(media.Result)) (MediaStream, error)) {
	out := &outgoing{}
	s.mu.Lock()
	s.of[seg] = out
	s.mu.Unlock()
	stream, err := open(func(res media.Result) { s.ended(seg, out, res) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.of, seg)
		return
	}
	out.stream = stream
}

// await enters a segment whose first wanted object has not come yet.
func (s *streams) await(j *joiner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[j.segment] = &outgoing{joiner: j}
}

// ended is called when a stream of a segment sends nothing more.
func (s *streams) ended(seg *track.Segment, out *outgoing, res media.Result) {
	s.mu.Lock()
	if s.of[seg] == out {
		delete(s.of, seg)
	} else {
		s.ending--
	}
	if res.ID >= 0 {
		s.opened++
	}
	state, _ := seg.Log.State()
	closed := closedSubgroup{subgroupID: idOf(seg), why: res.Outcome}
	over := res.Outcome == media.Delivered && !state.Ended() // the fast path is ahead: the end may come again
	if over {
		closed.first = seg.First // what precedes it is on another stream
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
	s.mu.Unlock()
	s.sendDone()
}

// beginRest delays PUBLISH_DONE until endRest, although the stream ends whose rest another one is to bring.
func (s *streams) beginRest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending++
}

// endRest is called when that stream was opened, or none is needed.
func (s *streams) endRest() {
	s.mu.Lock()
	s.ending--
	s.mu.Unlock()
	s.sendDone()
}

// isFinishing reports whether PUBLISH_DONE is due once the streams have ended.
func (s *streams) isFinishing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done != nil
}

// areOpenLocked reports whether a segment is being sent, or will be, or a stream has not ended yet; mu is held.
func (s *streams) areOpenLocked() bool { return len(s.of)+s.ending > 0 }

// forget allows all subgroups to be sent again.
func (s *streams) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = nil
}

// stop resets the streams of unwanted segments. The segments may be sent again at once, although the
// media sender reports later that the streams have ended.
func (s *streams) stop(unwanted func(*track.Segment) bool) {
	var resets []func()
	s.mu.Lock()
	for seg, out := range s.eachLocked() {
		if out.stream != nil && unwanted(seg) {
			resets = append(resets, func() { s.noteSent(seg, out.stream.Reset(uint64(moqt.ResetCancelled))) })
			delete(s.of, seg)
			s.ending++
		}
	}
	s.stopJoinersLocked(unwanted)
	s.mu.Unlock()
	for _, reset := range resets {
		reset()
	}
}

// noteSent notes up to which log offset a stream was sent that was stopped, if the fast path was ahead of the log.
func (s *streams) noteSent(seg *track.Segment, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.sent, func(seg *track.Segment, _ sentTo) bool {
		state, _ := seg.Log.State()
		return state.Ended()
	})
	if at > seg.Log.End() {
		s.sent[seg] = sentTo{at, seg.Log.Origin()}
	}
}

// sentTo returns up to which log offset a stopped stream of a segment was sent, or 0 if the log has all of that.
func (s *streams) sentTo(seg *track.Segment) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[seg].offset
}

// seek returns the first object of a segment that has an id of at least from, and was not sent whole on a stream that
// was stopped. What follows a cut was not sent.
func (s *streams) seek(seg *track.Segment, from uint64) (o track.Object, ok bool) {
	s.mu.Lock()
	sent := s.sent[seg]
	s.mu.Unlock()
	at := sent.offset
	if sent.origin != nil {
		if cut, severed := sent.origin.Severed(); severed {
			at = min(at, cut)
		}
	}
	o, ok = seg.Log.Seek(from)
	for ok && o.End <= at && o.ID < math.MaxUint64 {
		o, ok = seg.Log.Seek(o.ID + 1)
	}
	return o, ok
}

// eachLocked yields the segments that are being sent, the oldest ones first; mu is held. They may be removed meanwhile.
func (s *streams) eachLocked() iter.Seq2[*track.Segment, *outgoing] {
	return func(yield func(*track.Segment, *outgoing) bool) {
		for _, seg := range slices.SortedFunc(maps.Keys(s.of), func(a, b *track.Segment) int {
			return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Subgroup, b.Subgroup))
		}) {
			if !yield(seg, s.of[seg]) {
				return
			}
		}
	}
}

// setTimeouts changes the delivery timeouts of streams whose segments have some of their own.
func (s *streams) setTimeouts(own func(*track.Segment) *media.Timeouts) {
	var changes []func()
	s.mu.Lock()
	for seg, out := range s.eachLocked() {
		if t := own(seg); out.stream != nil && t != nil {
			changes = append(changes, func() { out.stream.SetTimeouts(*t) })
		}
	}
	s.mu.Unlock()
	for _, change := range changes {
		change()
	}
}

// stopJoiners ends the wait for objects of all segments.
func (s *streams) stopJoiners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopJoinersLocked(func(*track.Segment) bool { return true })
}

// stopJoinersLocked ends the wait for objects of unwanted segments; mu is held.
func (s *streams) stopJoinersLocked(unwanted func(*track.Segment) bool) {
	for seg, out := range s.eachLocked() {
		if out.joiner != nil && out.stream == nil && unwanted(seg) {
			out.joiner.closeLocked()
			delete(s.of, seg)
		}
	}
}

// beginFill enters a fill.
func (s *streams) beginFill(f *session.FillRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fills == nil {
		s.fills = make(map[*session.FillRequest]struct{})
	}
	s.fills[f] = struct{}{}
}

// endFill removes a fill whose stream has ended.
func (s *streams) endFill(f *session.FillRequest) {
	s.mu.Lock()
	delete(s.fills, f)
	s.mu.Unlock()
	s.sendDone()
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
	if done == nil || s.areOpenLocked() || len(s.fills) > 0 {
		s.mu.Unlock()
		return
	}
	s.done = nil
	opened := s.opened
	s.mu.Unlock()
	s.pub.AddStreams(opened)
	_ = s.pub.Done(done.Status, done.Reason) // fails only if the peer has ended it
}
