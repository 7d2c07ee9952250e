package media

import (
	"fmt"
	"sync/atomic"

	"sluice/claim"
	"sluice/clock"
	"sluice/moqt"
	"sluice/track"
)

// Stream is one downstream subgroup stream: a prefix and a cursor on a log. Its methods may be called on any goroutine.
type Stream struct {
	unit
	sender *Sender
	state  *claim.StreamState
	shared bool // state is of the forwarder's
	prefix []byte
	log    *track.Log
	reader *track.Reader // nil: the log is not needed any more
	start  int64
	onDone func(Result)
	gone   atomic.Bool // tells the feed that growth of the log is of no interest

	// Guarded by sender.mu.
	slot       int    // in sender.streams
	number     uint32 // stream id / 4
	opened     bool   // the id was taken
	prefixSent int
	park       parking
	acked      spans // stream offsets
	lost       spans
	finLost    bool
	finAcked   bool
	resetting  bool   // RESET_STREAM is to be acknowledged
	code       uint64 // of RESET_STREAM, on the wire
	final      int64  // final size, once ended
	blockedAt  int64  // limit that STREAM_DATA_BLOCKED was sent for; -1: none

	added    clock.Time
	object   track.Object // looked at last
	finished clock.Time   // when the log was seen to be finished; 0: not yet
	deadline clock.Time   // by when all must be acknowledged (SUBGROUP_DELIVERY_TIMEOUT)
}

// parking is why new data of a stream is not scheduled although there is some.
type parking uint8

const (
	notParked    parking = iota
	parkedStream         // until MAX_STREAM_DATA
	parkedConn           // until MAX_DATA
	parkedID             // until MAX_STREAMS
)

func newStream(sub *Subscription, cfg StreamConfig, reader *track.Reader) *Stream {
	st := &Stream{
		unit:   unit{sub: sub, priority: cfg.Priority, group: cfg.Group, minor: cfg.Subgroup},
		sender: sub.sender, prefix: cfg.Prefix, log: cfg.Log, reader: reader, start: cfg.Start, onDone: cfg.OnDone,
		blockedAt: -1, deadline: clock.Never,
	}
	st.stream = st
	return st
}

// Reset ends the stream with an application's code, unless all of it was acknowledged. A stream that is not open on the wire yet will
// not be opened.
func (st *Stream) Reset(code uint64) {
	s := st.sender
	s.mu.Lock()
	defer s.unlock()
	s.reset(st, Result{Outcome: Canceled, Code: code}, st.sub.errorCode(code))
	s.shard.enqueue(s)
}

// Outcome is how a stream ended.
type Outcome uint8

// Outcomes.
const (
	Delivered        Outcome = iota // every byte and FIN was acknowledged
	Canceled                        // reset by the owner
	UpstreamReset                   // the log was reset
	Stopped                         // the peer sent STOP_SENDING
	ObjectTimedOut                  // OBJECT_DELIVERY_TIMEOUT
	SubgroupTimedOut                // SUBGROUP_DELIVERY_TIMEOUT
	Dropped                         // by the drop policy
	ConnectionClosed                // with the connection
	numOutcomes
)

var outcomeNames = [numOutcomes]string{
	"delivered", "canceled", "upstream_reset", "stopped", "object_timeout", "subgroup_timeout", "dropped", "connection_closed",
}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Result says how a stream ended.
type Result struct {
	Outcome Outcome
	Code    uint64 // of the reset: the application's, but on the wire for Stopped
	ID      int64  // QUIC stream id; -1: the stream was never opened
	Size    int64  // bytes sent, prefix included: the final size
}

func (st *Stream) id() int64 { return int64(st.state.ID.Load()) }

// offset returns the stream offset of the first byte that nobody has sent.
func (st *Stream) offset() int64 {
	if st.prefixSent < len(st.prefix) {
		return int64(st.prefixSent)
	}
	next, _ := st.state.Cursor()
	return next + st.state.Shift()
}

// upstream returns the log offset of a stream offset; for the prefix, where the log's part begins.
func (st *Stream) upstream(offset int64) int64 {
	return max(offset-int64(len(st.prefix)), 0) + st.start
}

// read copies the stream's bytes from offset on into p.
func (st *Stream) read(p []byte, offset int64) {
	if head := int64(len(st.prefix)) - offset; head > 0 {
		n := copy(p, st.prefix[offset:])
		p, offset = p[n:], offset+int64(n)
	}
	st.reader.ReadAt(p, st.upstream(offset))
}

// fresh reports up to which log offset there is data, if the stream ends there, and if any of that was never sent.
func (st *Stream) fresh() (end int64, last, more bool) {
	state, _ := st.log.State() // before End: see track.Log.End
	end, last = st.log.End(), state == track.Finished
	next, closed := st.state.Cursor()
	return end, last, !closed && (next < end || last && next == end)
}

// repairable is how many bytes can be sent again now. A forwarder can be ahead of the log: what it sent and lost may be yet to come.
func (st *Stream) repairable() int64 {
	if len(st.lost) == 0 {
		return 0
	}
	return min(st.lost[0].to, st.log.End()+st.state.Shift()) - st.lost[0].from
}

// complete says if everything was acknowledged.
func (st *Stream) complete() bool {
	return st.finAcked && st.acked.contains(0, st.offset())
}

// release lets go of what was acknowledged.
func (st *Stream) release() {
	if len(st.acked) > 0 && st.acked[0].from == 0 {
		st.reader.Release(st.upstream(st.acked[0].to))
	}
}

// addStream makes st one of the sender's.
func (s *Sender) addStream(st *Stream, opened bool) {
	if st.state == nil {
		st.state = s.loop.newStreamState()
	}
	if !opened {
		st.state.Next.Store(uint64(st.start))
		st.state.Delta.Store(uint64(int64(len(st.prefix)) - st.start))
	}
	st.state.Level.Store(uint32(st.level()))
	st.added = s.loop.clock.Now()
	st.slot = len(s.streams)
	s.streams = append(s.streams, st)
	if opened {
		s.adopt(st)
	} else {
		s.update(st)
	}
}

// update schedules the stream if it has something to send.
func (s *Sender) update(st *Stream) {
	if st.reader == nil {
		return
	}
	state, code := st.log.State()
	if state == track.Reset || st.overrun(state) {
		s.reset(st, Result{Outcome: UpstreamReset, Code: code}, st.sub.errorCode(code))
		return
	}
	if st.level() > s.threshold {
		s.reset(st, Result{Outcome: Dropped, Code: codeDeliveryTimeout}, st.sub.errorCode(codeDeliveryTimeout))
		return
	}
	if state == track.Finished && st.finished == 0 {
		st.finished = s.loop.clock.Now()
		s.setSubgroupDeadline(st)
	}
	_, _, more := st.fresh()
	if st.repairable() > 0 || st.finLost || more && st.park == notParked {
		s.ready.add(&st.unit)
	} else {
		s.ready.remove(&st.unit)
	}
}

// parkAs unschedules new data until what it lacks comes.
func (s *Sender) parkAs(st *Stream, p parking) {
	st.park = p
	s.parkedStreams++
	if p != parkedStream {
		s.parked[p] = append(s.parked[p], st)
	}
	s.update(st)
}

// unpark schedules the streams that lacked p.
func (s *Sender) unpark(p parking) {
	list := s.parked[p]
	s.parked[p] = nil
	if p == parkedConn {
		s.dataWanted.Store(false)
	}
	for _, st := range list {
		if st.park == p {
			s.unparkStream(st)
		}
	}
}

func (s *Sender) unparkStream(st *Stream) {
	if st.park != notParked {
		st.park = notParked
		s.parkedStreams--
		s.update(st)
	}
}

// acknowledge notes that [from, to) and perhaps FIN arrived.
func (s *Sender) acknowledge(st *Stream, from, to int64, fin bool) {
	if st.reader == nil {
		return
	}
	st.acked.add(from, to)
	st.lost.remove(from, to)
	if fin {
		st.finAcked, st.finLost = true, false
	}
	if st.complete() {
		s.finish(st, Result{Outcome: Delivered})
		s.forget(st)
		return
	}
	st.release()
	s.update(st)
}

// lose schedules what a lost packet carried, unless another packet has delivered it.
func (s *Sender) lose(st *Stream, from, to int64, fin bool) {
	if st.reader == nil {
		return
	}
	st.lost.addMissing(from, to, st.acked)
	st.finLost = st.finLost || fin && !st.finAcked
	s.update(st)
}

// reset ends the stream early. On the wire, if it was opened there, with RESET_STREAM.
func (s *Sender) reset(st *Stream, r Result, code uint64) {
	if st.reader == nil {
		return
	}
	s.finish(st, r)
	if !st.opened {
		s.forget(st)
		return
	}
	st.resetting, st.code = true, code
	s.resets = append(s.resets, st)
}

// finish lets go of the log and reports the result.
func (s *Sender) finish(st *Stream, r Result) {
	s.ready.remove(&st.unit)
	next := st.state.Close()
	st.state.Phase.Store(claim.StreamClosed)
	st.final = int64(st.prefixSent)
	if st.prefixSent == len(st.prefix) {
		st.final = next + st.state.Shift()
	}
	st.reader.Close()
	st.reader, st.lost, st.acked, st.deadline = nil, nil, nil, clock.Never
	s.unparkStream(st)
	st.gone.Store(true)
	s.counters.Outcomes[r.Outcome]++
	if r.Size, r.ID = st.final, -1; st.opened {
		r.ID = st.id()
	}
	if st.onDone != nil {
		s.after = append(s.after, func() { st.onDone(r) })
	}
}

// forget removes a stream that needs no more packets.
func (s *Sender) forget(st *Stream) {
	last := len(s.streams) - 1
	s.streams[st.slot] = s.streams[last]
	s.streams[st.slot].slot = st.slot
	s.streams[last] = nil
	s.streams = s.streams[:last]
	if st.opened {
		delete(s.byNumber, st.number)
	}
	st.resetting = false
	if st.shared {
		s.forwarder.CloseStream(st.state)
	} else {
		s.loop.memory.FreeStream(st.state)
	}
}

// setSubgroupDeadline starts, changes or stops the timer of SUBGROUP_DELIVERY_TIMEOUT: it runs from when all objects are known to be
// published until all is acknowledged (draft §8).
func (s *Sender) setSubgroupDeadline(st *Stream) {
	st.deadline = clock.Never
	if st.finished != 0 && st.reader != nil && st.sub.subgroupTimeout > 0 {
		st.deadline = st.finished.Add(st.sub.subgroupTimeout)
	}
	s.subgroupDeadline = min(s.subgroupDeadline, st.deadline)
}

// expireSubgroups resets the streams whose timer has run out.
func (s *Sender) expireSubgroups(now clock.Time) {
	if now < s.subgroupDeadline {
		return
	}
	s.subgroupDeadline = clock.Never
	for i := len(s.streams) - 1; i >= 0; i-- {
		st := s.streams[i]
		if st.deadline <= now {
			s.reset(st, Result{Outcome: SubgroupTimedOut, Code: codeDeliveryTimeout}, st.sub.errorCode(codeDeliveryTimeout))
		}
		s.subgroupDeadline = min(s.subgroupDeadline, st.deadline)
	}
}

// tooLate says if the object that the byte at a stream offset belongs to has exceeded OBJECT_DELIVERY_TIMEOUT (draft §8).
func (s *Sender) tooLate(st *Stream, offset int64) bool {
	timeout := st.sub.objectTimeout
	if timeout == 0 {
		return false
	}
	// An object whose fields are still incomplete has no time yet.
	return st.look(st.upstream(offset)) && s.loop.clock.Wall().Sub(st.object.Received) > timeout
}

// look sets object to the one at a log offset, if that is known.
func (st *Stream) look(offset int64) bool {
	if offset >= st.object.Start && offset < st.object.End {
		return true
	}
	o, ok := st.log.Covering(offset)
	if ok {
		st.object = o
	}
	return ok
}

// Stream reset codes that the sender chooses itself.
const (
	codeCanceled        = uint64(moqt.ResetCancelled)
	codeDeliveryTimeout = uint64(moqt.ResetDeliveryTimeout)
)
