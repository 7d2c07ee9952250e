package track

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"sluice/moqt"
)

// input is one stream in the merge of its subgroup: its log, and how far the merge has dealt with it. Methods expect
// merge.mu to be held, except progress and end, which take it, and arrival.
//
// Methods with the argument own are also called on the goroutine of another stream, which has ended and made this one
// active: then own is false, and the log may only be used as a Reader may.
type input struct {
	track *Track
	cfg   SourceConfig
	group *group // nil before the first object
	sub   *subgroup
	log   *Log // this stream's bytes; replaced by split

	// The Source's own.
	unparsed []byte // may lie in the memory of log
	parsed   int64  // End of the latest object

	// Guarded by merge.mu.
	verbatim    bool      // the log is the segment's
	followed    *Origin   // that the segment's log has while it goes on with this stream's bytes; nil: it does not
	done        int64     // bytes before it were forwarded, compared or skipped
	previous    uint64    // id of the object before done
	hasPrevious bool      // there is one
	ahead       int64     // bytes after done, which wait; part of Track.ahead
	received    time.Time // when data came last
	state       State
	failed      error
}

// arrival describes an object for the rules of the track.
func (in *input) arrival(o Object, subgroup uint64, p moqt.Properties) arrival {
	a := arrival{
		at:       moqt.Location{Group: in.cfg.Header.GroupID, Object: o.ID},
		subgroup: subgroup,
		priority: in.cfg.Priority,
		status:   o.Status,
	}
	a.setProperties(p)
	return a
}

// progress deals with what the Source has parsed.
func (in *input) progress() error {
	if in.sub == nil {
		return nil
	}
	m := &in.sub.merge
	m.mu.Lock()
	defer m.mu.Unlock()
	in.received = in.track.cache.now()
	if in.failed != nil {
		return in.failed
	}
	if err := in.drain(true); err != nil {
		return err
	}
	if in.ahead > 0 && in.track.ahead.Load() > maxAhead {
		return ErrTooFarAhead
	}
	return nil
}

// drain deals with the objects of the log as far as it can now.
func (in *input) drain(own bool) error {
	for {
		o, ok := in.log.Covering(in.done)
		if !ok {
			break
		}
		more, err := in.step(o, own)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if own {
		in.commit()
	}
	if !in.verbatim {
		in.log.Discard(min(in.done, in.log.End()))
	}
	in.setAhead(max(0, in.log.End()-in.done))
	return nil
}

// setAhead counts the bytes that wait.
func (in *input) setAhead(n int64) {
	in.track.ahead.Add(n - in.ahead)
	in.ahead = n
}

// commit makes the finished bytes visible. All bytes of a waiting stream are visible, so that another stream's
// goroutine can make it active.
func (in *input) commit() {
	end := in.done
	if in.sub.merge.active != in {
		end = in.parsed
	}
	if end = min(end, in.log.Written()); end > in.log.End() {
		in.log.Commit(end)
	}
}

// makeVisible makes those bytes of o visible that are still to be copied or compared.
func (in *input) makeVisible(o Object, own bool) {
	if !own {
		return
	}
	if end := min(in.log.Written(), o.End); end > in.log.End() {
		in.log.Commit(end)
	}
}

// step deals with the object that done lies in. It reports whether all of the object is done.
func (in *input) step(o Object, own bool) (bool, error) {
	m := &in.sub.merge
	if !own && in.log.End() < o.PayloadStart {
		return false, nil
	}
	if in.done > o.Start {
		return in.copyPayload(o, own), nil
	}
	if m.active != in {
		return in.compareHeld(o, own)
	}
	if m.out != nil && !in.verbatim && m.out.endsIn(o) {
		return in.resume(o, own)
	}
	v, err := in.admit(o)
	switch {
	case err != nil:
		return false, err
	case v == newObject:
		return in.forward(o, own)
	case in.verbatim:
		in.split(o)
		return true, nil
	}
	in.unfollow()
	if v == duplicate {
		return in.compareHeld(o, own)
	}
	in.skip(o)
	return true, nil
}

// follow makes the segment's log go on with this stream's bytes after o, which the log ends with, if it has objects of
// the same form.
func (in *input) follow(o Object) {
	out := in.sub.merge.out
	if in.followed == nil && in.cfg.Owner != nil && out.HasProperties == in.cfg.Header.HasProperties {
		in.followed = out.Log.follow(in.cfg.Owner, o.End)
	}
}

// unfollow ends that: the stream's next object is not for the segment.
func (in *input) unfollow() {
	if in.followed != nil {
		in.sub.merge.out.Log.sever()
		in.followed = nil
	}
}

// admit asks the track about an object. A mark of a subgroup that has ended with FIN is not forwarded.
func (in *input) admit(o Object) (verdict, error) {
	a := in.arrival(o, in.sub.id, in.log.properties(o))
	in.track.mu.Lock()
	defer in.track.mu.Unlock()
	_, v, err := in.track.admitLocked(&a)
	if v == newObject && o.Status != moqt.StatusNormal && in.sub.finished {
		in.sub.last = max(in.sub.last, o.ID)
		if in.sub.merge.out == nil {
			v = nonexistent
		}
	}
	return v, err
}

func (in *input) skip(o Object) {
	in.done = o.End
	in.previous, in.hasPrevious = o.ID, true
}

// forward gives a new object to the subscribers.
func (in *input) forward(o Object, own bool) (bool, error) {
	m := &in.sub.merge
	if in.verbatim {
		in.skip(o)
		return true, nil
	}
	if m.out != nil && !m.out.accepts(o, in.previous, in.hasPrevious) {
		m.resetOut(uint64(moqt.ResetCancelled))
		in.followed = nil
	}
	if m.out == nil && own && in.log.End() <= o.Start {
		in.verbatim = true
		in.open(o, in.log)
		in.log.Discard(o.Start)
		in.skip(o)
		return true, nil
	}
	if m.out == nil {
		in.open(o, NewLog(o.Start, &in.track.cache.mem))
	}
	if in.followed != nil {
		m.out.appendSame(o, in.log)
	} else {
		m.out.appendHeader(o, in.log.properties(o))
	}
	in.done = o.PayloadStart
	return in.copyPayload(o, own), nil
}

// open makes log the segment that begins with o.
func (in *input) open(o Object, log *Log) {
	seg := &Segment{
		Log:           log,
		Group:         in.group.id,
		Subgroup:      in.sub.id,
		Priority:      in.cfg.Priority,
		First:         o.ID,
		Start:         o.Start,
		FirstObject:   in.cfg.Header.FirstObject && !in.hasPrevious,
		EndOfGroup:    in.cfg.Header.EndOfGroup,
		HasProperties: in.cfg.Header.HasProperties,
		track:         in.track,
	}
	if in.verbatim {
		log.First.Owner = in.cfg.Owner
	}
	m := &in.sub.merge
	if seg.FirstObject && in.cfg.Timeouts {
		m.objectTimeout, m.subgroupTimeout = in.log.properties(o).DeliveryTimeouts()
	}
	seg.ObjectTimeout, seg.SubgroupTimeout = m.objectTimeout, m.subgroupTimeout
	t := in.track
	t.mu.Lock()
	in.group.addSegment(seg)
	kept := !t.closed && t.retentionLocked() > 0
	t.mu.Unlock()
	m.out = seg
	t.opened(seg)
	if !kept { // the readers that opened has made still get all
		log.Discard(math.MaxInt64)
	}
}

// split ends the verbatim segment before o, which must not be forwarded, and goes on with a log of its own.
func (in *input) split(o Object) {
	in.unparsed = slices.Clone(in.unparsed)
	old := in.log
	old.Commit(o.Start)
	in.log = old.moveTail(o.Start)
	for next, ok := old.Covering(o.Start); ok; next, ok = old.Covering(next.End) {
		in.log.AddObject(next)
	}
	old.Reset(uint64(moqt.ResetCancelled))
	in.sub.merge.out, in.verbatim = nil, false
}

// copyPayload appends the bytes of the payload of o that have come to the segment. It reports whether they were the
// rest.
func (in *input) copyPayload(o Object, own bool) bool {
	in.makeVisible(o, own)
	r, err := in.log.NewReader(in.done, nil)
	if err != nil {
		return false
	}
	defer r.Close()
	for end := min(o.End, in.log.End()); in.done < end; {
		v := r.View(in.done, int(end-in.done))
		in.sub.merge.out.Log.Append(v)
		in.done += int64(len(v))
	}
	if in.done < o.End {
		return false
	}
	in.skip(o)
	in.follow(o)
	return true
}

// resume goes on with an object whose first part another stream delivered.
func (in *input) resume(o Object, own bool) (bool, error) {
	out := in.sub.merge.out.Log
	held, _ := out.Last()
	if err := in.compare(o, out, held, own); err != nil {
		return false, err
	}
	have := out.End() - held.PayloadStart
	if in.log.End()-o.PayloadStart < have {
		return false, nil
	}
	in.done = o.PayloadStart + have
	return in.copyPayload(o, own), nil
}

// compareHeld compares an object that came before with the held one, when both are complete. An object that did
// not come before waits.
func (in *input) compareHeld(o Object, own bool) (bool, error) {
	in.makeVisible(o, own)
	if in.log.End() < o.End {
		return false, nil
	}
	t := in.track
	t.mu.Lock()
	seen := in.group.hasSeen(o.ID)
	p, held := in.group.find(o.ID)
	t.mu.Unlock()
	if !seen || held && !p.isComplete() {
		return false, nil
	}
	if held && p.segment != nil {
		if err := in.compare(o, p.segment.Log, p.object, own); err != nil {
			return false, err
		}
	}
	in.skip(o)
	return true, nil
}

// compare returns an error if o differs from the same object in another log, in fields that must not differ (draft
// §9.1), as far as both have come.
func (in *input) compare(o Object, log *Log, held Object, own bool) error {
	in.makeVisible(o, own)
	at := moqt.Location{Group: in.group.id, Object: o.ID}
	if o.PayloadLen() != held.PayloadLen() || o.Status != held.Status {
		return malformed("object %s came with different payloads", at)
	}
	if !bytes.Equal(in.log.properties(o).Immutable(), log.properties(held).Immutable()) {
		return malformed("object %s came with different immutable properties", at)
	}
	n := min(in.log.End()-o.PayloadStart, log.End()-held.PayloadStart, o.PayloadLen())
	if !equalBytes(in.log, o.PayloadStart, log, held.PayloadStart, n) {
		return malformed("object %s came with different payloads", at)
	}
	return nil
}

// equalBytes compares n bytes of two logs; bytes that are no longer held count as equal.
func equalBytes(a *Log, aOff int64, b *Log, bOff, n int64) bool {
	ra, err := a.NewReader(aOff, nil)
	if err != nil {
		return true
	}
	defer ra.Close()
	rb, err := b.NewReader(bOff, nil)
	if err != nil {
		return true
	}
	defer rb.Close()
	for n > 0 {
		va := ra.View(aOff, int(n))
		vb := rb.View(bOff, len(va))
		if !bytes.Equal(va[:len(vb)], vb) {
			return false
		}
		aOff, bOff, n = aOff+int64(len(vb)), bOff+int64(len(vb)), n-int64(len(vb))
	}
	return true
}

// end ends the stream: with FIN, as a reset with that code, or because it has broken off.
func (in *input) end(state State, code uint64) error {
	m := &in.sub.merge
	m.mu.Lock()
	defer m.mu.Unlock()
	if in.state != Open {
		return nil
	}
	in.state = state
	err := in.finishSubgroup()
	if err != nil {
		state, code = Reset, uint64(moqt.ResetMalformedTrack)
	}
	defer in.leaveGroup() // last, for until then the group stays while a waiting stream is made active
	if m.active == in {
		return cmp.Or(err, m.activeEnded(in, state, code))
	}
	// Nobody else may bring what a stream brought that has broken off.
	if state == Reset || in.failed != nil || in.log.End() == in.done {
		m.remove(in)
	}
	return err
}

// finishSubgroup records, after FIN, where the subgroup ends.
func (in *input) finishSubgroup() error {
	if in.state != Finished {
		return nil
	}
	in.track.mu.Lock()
	defer in.track.mu.Unlock()
	last, _ := in.log.Last()
	return in.group.finishSubgroup(in.sub, last, in.cfg.Header.EndOfGroup)
}

// leaveGroup records that the stream has ended.
func (in *input) leaveGroup() {
	in.track.mu.Lock()
	defer in.track.mu.Unlock()
	in.group.sources--
	in.sub.sources--
}

// fail is called on another stream's goroutine: the objects of this one are wrong, or too many.
func (in *input) fail(err error) {
	in.failed = err
	if in.state == Open {
		in.cfg.Cancel()
	} else {
		in.release()
	}
}

// release frees the log, unless it belongs to a segment.
func (in *input) release() {
	in.log.Reset(0)
	in.log.Discard(math.MaxInt64)
	in.setAhead(0)
}
