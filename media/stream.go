package media

import (
	"math"
	"sync/atomic"
	"time"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
	"sluice/moqt"
	"sluice/track"
)

// Stream is one downstream subgroup stream: a prefix and a cursor on a log. Reset may be called on any goroutine. All
// else is guarded by the lock of the stream's sender, except for what does not change.
type Stream struct {
	unit
	content
	delivery
	sender *Sender
	onOpen func(id int64)
	onDone func(Result)
	goesOn func(*track.Origin) *claim.PublisherStream
	wanted Timeouts    // by the publisher
	gone   atomic.Bool // the feed need not serve the stream any more; needs no lock

	arrivals atomic.Pointer[arrivals] // of the log; nil before there is a feed; needs no lock

	slot      int    // in streamSet.all
	number    uint32 // stream id / 4
	opened    bool   // the id was taken
	park      parking
	parkedAt  int    // in credit.waiting
	resetting bool   // RESET_STREAM is to be acknowledged
	code      uint64 // of RESET_STREAM, on the wire
	final     int64  // final size, once ended
	blockedAt int64  // limit that STREAM_DATA_BLOCKED was sent for; -1: none

	awaited int64      // acknowledgments of what was sent below this offset are awaited, see overdue
	since   clock.Time // since then, or since the reset

	waits    clock.Time // since when there has been something to send; never: there is nothing
	finished clock.Time // when the log was seen to have ended; 0: not yet
	deadline clock.Time // by when everything must be acknowledged (SUBGROUP_DELIVERY_TIMEOUT)
}

// Stream reset codes that the sender chooses itself.
const (
	codeCanceled        = uint64(moqt.ResetCancelled)
	codeDeliveryTimeout = uint64(moqt.ResetDeliveryTimeout)
)

func newStream(sub *Subscription, cfg StreamConfig, reader *track.Reader) *Stream {
	st := &Stream{
		unit: unit{sub: sub, priority: cfg.Priority, group: cfg.Group, minor: cfg.Subgroup},
		content: content{prefix: cfg.Prefix, log: cfg.Log, reader: reader, start: cfg.Start, until: unlimited,
			origin: &cfg.Log.First},
		sender: sub.sender, onOpen: cfg.OnOpen, onDone: cfg.OnDone, goesOn: cfg.GoesOn,
		wanted: cfg.Timeouts, blockedAt: -1, waits: clock.Never, deadline: clock.Never,
	}
	st.stream = st
	return st
}

// begin makes st one of its sender's streams. adopted reports that the forwarder has opened it.
func (st *Stream) begin(adopted bool) {
	s := st.sender
	if st.state == nil {
		st.state = new(claim.StreamState)
	}
	if !adopted {
		st.state.Next.Store(uint64(st.start))
		st.state.Delta.Store(uint64(int64(len(st.prefix)) - st.start))
	}
	st.state.Level.Store(uint32(st.level()))
	s.streams.add(st)
	s.shard.follow(st) // before the first look at the log, so that nothing is missed
	if adopted {
		s.streams.adopt(st)
	} else {
		st.update()
	}
}

// Reset ends the stream with an application's code, unless all of it was acknowledged. A stream that is not open on
// the wire yet will not be opened. It returns up to which log offset the stream was sent: a forwarder may have been
// ahead of the log.
func (st *Stream) Reset(code uint64) (sent int64) {
	s := st.sender
	s.mu.Lock()
	defer s.mu.release()
	st.cancel(code)
	s.shard.enqueue(s)
	return st.logOffset(st.final)
}

// cancel ends the stream with an application's code.
func (st *Stream) cancel(code uint64) {
	st.end(Result{Outcome: Canceled, Code: code}, st.sub.errorCode(code))
}

// giveUp ends the stream with DELIVERY_TIMEOUT (draft §8).
func (st *Stream) giveUp(o Outcome) {
	st.end(Result{Outcome: o, Code: codeDeliveryTimeout}, st.sub.errorCode(codeDeliveryTimeout))
}

// update schedules the stream if it has something to send.
func (st *Stream) update() {
	if st.reader == nil {
		return
	}
	s := st.sender
	state, code := st.log.State()
	if at, severed := st.origin.Severed(); severed && st.shared {
		s.link.conn.CloseStream(st.detach(at))
	}
	if o := st.next(); o != nil && st.opened && st.goesOn != nil {
		st.origin = o
		s.mu.later(func() { s.link.resume(st, o) })
	}
	if st.overrun(state) {
		st.end(Result{Outcome: UpstreamReset, Code: code}, st.sub.errorCode(code))
		return
	}
	if r, ends := st.ending(state, code); ends && st.isDrained(state) {
		st.end(r, st.sub.errorCode(r.Code))
		return
	}
	if state == track.Finished && st.finished == 0 {
		st.finished = s.loop.clock.Now()
		st.setDeadline()
	}
	_, _, more := st.fresh()
	switch {
	case !more:
		st.waits = clock.Never
	case st.waits == clock.Never:
		st.waits = s.loop.clock.Now()
	}
	if o, declined := st.declined(more); declined {
		st.giveUp(o)
		return
	}
	if st.repairable(st.lost) > 0 || st.finLost || more && st.park == notParked {
		s.ready.add(&st.unit)
	} else {
		s.ready.remove(&st.unit)
	}
}

// ending returns how the stream ends if nothing follows the whole objects that it has, and reports whether that is so.
func (st *Stream) ending(state track.State, code uint64) (r Result, ends bool) {
	switch {
	case state == track.Reset && st.until == unlimited:
		return Result{Outcome: UpstreamReset, Code: code}, true
	case state == track.Reset:
		return Result{Outcome: Severed, Code: code}, true
	case st.until != unlimited:
		return Result{Outcome: Severed, Code: codeCanceled}, true
	case state == track.Cut && st.sub.finishing:
		return Result{Outcome: Canceled, Code: st.sub.finishCode}, true
	}
	return Result{}, false
}

// isDrained reports whether all whole objects have arrived, or the header of a stream that has none. An earlier reset
// would take them back.
func (st *Stream) isDrained(state track.State) bool {
	end := st.bound(state)
	switch {
	case end > st.start:
		return st.opened && st.released() >= end+st.shift()
	case !st.opened:
		return true
	}
	return st.released() >= min(int64(len(st.prefix)), st.offset())
}

// acknowledge notes that [from, to) and perhaps FIN have arrived.
func (st *Stream) acknowledge(from, to int64, fin bool) {
	if st.reader == nil {
		return
	}
	st.markAcked(from, to, fin)
	st.settle()
}

// settle ends the stream if all of it has arrived, and otherwise releases what has.
func (st *Stream) settle() {
	if st.complete(st.offset()) {
		st.finish(Result{Outcome: Delivered})
		st.sender.streams.forget(st)
		return
	}
	if n := st.released(); n > 0 {
		st.reader.Release(st.logOffset(n))
	}
	st.update()
}

// lose schedules the content of a lost packet.
func (st *Stream) lose(from, to int64, fin bool) {
	if st.reader == nil {
		return
	}
	st.markLost(from, to, fin)
	st.update()
}

// end ends the stream early: with RESET_STREAM and a code, if it was opened on the wire.
func (st *Stream) end(r Result, code uint64) {
	if st.reader == nil {
		return
	}
	st.finish(r)
	if !st.opened {
		st.sender.streams.forget(st)
		return
	}
	st.resetting, st.code, st.since = true, code, st.sender.loop.clock.Now()
	st.sender.streams.resets = append(st.sender.streams.resets, st)
}

// finish releases the log and plans the report of the result.
func (st *Stream) finish(r Result) {
	s := st.sender
	s.ready.remove(&st.unit)
	r.Arrived = st.logOffset(st.released())
	st.final = st.content.close()
	st.acked, st.lost, st.deadline = nil, nil, clock.Never
	s.credit.releaseStream(st)
	st.gone.Store(true)
	s.counters.Outcomes[r.Outcome]++
	r.Severed = st.severed
	if r.Sent, r.ID = st.logOffset(st.final), -1; st.opened {
		r.ID = st.id()
	}
	if st.onDone != nil {
		s.mu.later(func() { st.onDone(r) })
	}
}

// overdue reports whether something that was sent is not acknowledged for longer than timeout. It is called now and
// then. What was sent by one call is awaited; when all of it is acknowledged, what was sent by that time is awaited. So
// the times of single bytes need not be kept, and the stream is overdue after at most twice the timeout.
func (st *Stream) overdue(now clock.Time, timeout time.Duration) bool {
	if !st.resetting && st.released() >= st.awaited {
		st.awaited, st.since = st.sent(), now
	}
	return now.Sub(st.since) > timeout
}

// setDeadline starts, changes or stops the timer of SUBGROUP_DELIVERY_TIMEOUT. It runs from when all objects are
// known to be published until everything is acknowledged (draft §8).
func (st *Stream) setDeadline() {
	st.deadline = clock.Never
	if timeout := st.wanted.Shorter(st.sub.timeouts).Subgroup; st.finished != 0 && st.reader != nil && timeout > 0 {
		st.deadline = st.finished.Add(timeout)
	}
	st.sender.streams.deadline = min(st.sender.streams.deadline, st.deadline)
}

// waited returns how long the next byte could have been sent, if there is one: since its object was received, or the
// stream had nothing else to send. The publisher may have paused within the object.
func (st *Stream) waited(now clock.Time) time.Duration {
	if _, _, more := st.fresh(); !more || st.waits == clock.Never {
		return 0
	}
	next, _ := st.cursor()
	return min(st.age(st.sender.loop.clock.Wall(), next), now.Sub(st.waits))
}

// declined reports whether the limits of the drop policy, or an operator's rule, end the stream, and as what. An object
// that was begun goes whole: else a path that takes longer than a deadline for a key frame would never carry one.
func (st *Stream) declined(more bool) (o Outcome, yes bool) {
	s := st.sender
	l, replaced := &s.observer.limits, s.loop.rule != nil
	begins := more && (replaced || l.endStreams()) && st.betweenObjects()
	if !begins && (replaced || !l.hold()) {
		return 0, false
	}
	now := s.loop.clock.Now()
	a := claim.Admission{Level: uint32(st.level()), Now: now, Group: st.group}
	if begins {
		a.Age = st.waited(now)
	}
	if begins && replaced {
		a.Size = st.nextSize()
	}
	switch v := s.admit(a); {
	case v == claim.BeyondThreshold:
		return Dropped, true
	case !begins:
		return 0, false
	case v != claim.Admitted:
		return Dropped, true
	case l.GroupDeadline > 0 && st.group < st.sub.newest && st.waited(now) > max(l.GroupDeadline, st.sub.patience):
		return Late, true
	case l.Bucket.Rate > 0 && l.Deadline > 0 && s.state.Class(a.Level) > 3 && st.waited(now) > l.Deadline:
		return Dropped, true
	}
	return 0, false
}

// nextSize returns how long the packet is with which the object begins that comes next; 0 without a path.
func (st *Stream) nextSize() int {
	s := st.sender
	if s.path.route == nil {
		return 0
	}
	id, from := st.id(), st.offset()
	if !st.opened {
		id = int64(s.state.NextUni.Load())
	}
	header := packet.StreamHeaderLength(id, from)
	data := min(st.object.End+st.shift()-from, int64(s.out.space()-header))
	return int(data) + s.out.overhead(header)
}

// decisionAt returns the stream offset up to which new bytes may be in one packet: if the limits or an operator's rule
// may end the stream, to the end of the object, because that is where it can end; and else -1.
func (st *Stream) decisionAt() int64 {
	l := &st.sender.observer.limits
	next, _ := st.cursor()
	held := st.sender.loop.rule != nil || l.Bucket.Rate != 0
	if !held && (l.GroupDeadline == 0 || st.group >= st.sub.newest) || !st.find(next) {
		return -1
	}
	return st.object.End + st.shift()
}

// endIfLate ends the stream if the object at a stream offset has exceeded OBJECT_DELIVERY_TIMEOUT (draft §8), and
// reports that.
func (st *Stream) endIfLate(offset int64) bool {
	timeout := st.wanted.Shorter(st.sub.timeouts).Object
	if timeout == 0 || st.age(st.sender.loop.clock.Wall(), st.logOffset(offset)) <= timeout {
		return false
	}
	st.giveUp(ObjectTimedOut)
	return true
}

// send sends the next bytes of a stream: lost ones first, because the peer waits for them in order.
func (st *Stream) send(now clock.Time, b *udp.Batch) Reason {
	defer st.sender.ready.served(&st.unit)
	switch {
	case st.repairable(st.lost) > 0:
		if st.endIfLate(st.lost[0].from) {
			return none
		}
		return st.resend(now, b, st.lost[0].from, st.repairable(st.lost))
	case st.finLost:
		return st.resend(now, b, st.offset(), 0)
	}
	if st.endIfLate(st.offset()) {
		return none
	}
	return st.sendNew(now, b)
}

// resend sends bytes again, as many as fit into a packet, and FIN if they are the stream's last.
func (st *Stream) resend(now clock.Time, b *udp.Batch, from, n int64) Reason {
	s := st.sender
	n = min(n, int64(s.out.space()-packet.StreamHeaderLength(st.id(), from)))
	number, generation, ok := s.ledger.begin(now)
	if !ok {
		return BlockedLedger
	}
	_, closed := st.state.Cursor()
	fin := closed && !st.finAcked && from+n == st.offset()
	st.markResent(from, from+n, fin)
	s.counters.Retransmissions++
	st.sendFrame(now, b, from, int(n), fin, number, generation)
	st.update()
	return none
}

// sendNew sends bytes for the first time, by the claim protocol: see package claim.
func (st *Stream) sendNew(now clock.Time, b *udp.Batch) Reason {
	s := st.sender
	if !st.opened && !st.open() {
		return none
	}
	from := st.offset()
	end, last, more := st.fresh()
	if !more { // the forwarder was faster
		st.update()
		return none
	}
	all := end + st.shift() - from
	if to := st.decisionAt(); to > from {
		all, last = min(all, to-from), last && to-from >= all
	}
	n := min(all, int64(st.state.Limit.Load())-from, int64(s.out.space()-packet.StreamHeaderLength(st.id(), from)))
	if n <= 0 && all > 0 {
		s.credit.block(st, parkedStream)
		return none
	}
	if n > 0 && s.state.DataAvailable() <= 0 {
		s.credit.block(st, parkedConn)
		return none
	}
	number, generation, ok := s.ledger.begin(now)
	if !ok {
		return BlockedLedger
	}
	data := s.state.TakeData(n, false, 0)
	if data == 0 && n > 0 {
		s.state.Abort()
		return none // another sender or quic-go was faster; the next attempt blocks
	}
	fin := last && data == all
	if !st.claim(from, data, fin) {
		s.state.ReturnData(data)
		s.state.Abort()
		st.update()
		return none
	}
	st.sender.shard.noteDelay(st, from)
	st.sendFrame(now, b, from, int(data), fin, number, generation)
	st.update()
	return none
}

// open takes a stream id, if anything can be sent on it.
func (st *Stream) open() bool {
	s := st.sender
	if s.state.DataAvailable() <= 0 {
		s.credit.block(st, parkedConn)
		return false
	}
	id, ok := s.state.TakeStream()
	if !ok || id/4 > math.MaxUint32 {
		s.credit.block(st, parkedID)
		return false
	}
	st.number, st.opened = uint32(id/4), true
	st.state.ID.Store(uint64(id))
	st.state.Limit.Store(uint64(s.params.MaxStreamDataUni))
	s.streams.register(st)
	return true
}

// sendFrame sends a packet with a STREAM frame. Its bytes are claimed, or lost ones.
func (st *Stream) sendFrame(now clock.Time, b *udp.Batch, offset int64, n int, fin bool, number, generation uint64) {
	s := st.sender
	flags := uint8(claim.KindStream)
	if fin {
		flags |= claim.FlagFIN
	}
	overhead := s.out.overhead(packet.StreamHeaderLength(st.id(), offset))
	s.ledger.commit(now, number, offset, claim.NewInfo(st.number, n, overhead, flags))
	p, header := s.out.begin(b)
	p = packet.AppendStreamHeader(p, st.id(), offset, fin)
	at := len(p)
	p = p[:at+n]
	st.read(p[at:], offset)
	s.out.finish(now, b, p, header, number, generation)
}
