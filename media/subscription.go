package media

import (
	"iter"
	"slices"
	"time"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
	"sluice/track"
)

// Level orders the data to send: Subscriber Priority << 8 | Publisher Priority. Lower levels go first (draft §7.2).
type Level uint16

// LowestPriority is the level that goes last: as a threshold it lets everything pass.
const LowestPriority Level = 0xffff

func levelOf(subscriber, publisher uint8) Level { return Level(subscriber)<<8 | Level(publisher) }

// SubscriptionConfig is what the streams and datagrams of a [Subscription] have in common.
type SubscriptionConfig struct {
	// Priority is the Subscriber Priority.
	Priority uint8
	// Descending is the Group Order: higher group ids are sent first.
	Descending bool
	// Timeouts are the delivery timeouts that the subscriber wants.
	Timeouts Timeouts
	// ErrorCode maps an application's stream reset code to its code on the wire. Default: the same.
	ErrorCode func(uint64) uint64
	// OnBehind is called once, as OnDone of a stream is, when the subscription lags more than the limits of the sender:
	// bytes are not sent or not acknowledged, and the oldest that is not sent has the age lag. It should end the
	// subscription with TOO_FAR_BEHIND (draft §8). Default: nothing happens.
	OnBehind func(bytes int64, lag time.Duration)
}

// Subscription sends the subgroups and datagrams of one subscription. Its methods may be called on any goroutine.
type Subscription struct {
	sender    *Sender
	errorCode func(uint64) uint64
	onBehind  func(bytes int64, lag time.Duration)
	since     clock.Time

	// Guarded by sender.mu.
	priority   uint8
	descending bool
	timeouts   Timeouts
	patience   time.Duration // see SetPatience
	lanes      []*lane       // also empty ones, for reuse
	datagrams  int           // queued
	behind     int64         // bytes that are not sent or not acknowledged, at the last look
	lag        time.Duration // age of the oldest byte that is not sent
	newest     uint64        // group that has bytes that are not sent, at the last look
	reported   bool          // as too far behind
	finishing  bool          // see Finish
	finishCode uint64        // for streams whose logs are cut
	closed     bool
}

func sameCode(code uint64) uint64 { return code }

// Timeouts are delivery timeouts. 0: none. The shorter one counts of what the subscriber and the publisher want (draft
// §8).
type Timeouts struct{ Object, Subgroup time.Duration }

// Shorter returns the shorter timeouts.
func (t Timeouts) Shorter(other Timeouts) Timeouts {
	return Timeouts{shorter(t.Object, other.Object), shorter(t.Subgroup, other.Subgroup)}
}

func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// StreamConfig describes a downstream stream: Prefix and then the bytes of Log from Start on.
type StreamConfig struct {
	// Prefix is what the stream starts with: the WebTransport stream header, SUBGROUP_HEADER, and for late joiners the
	// re-encoded first Object ID Delta. It is kept, and must not be changed.
	Prefix []byte
	Log    *track.Log
	Start  int64
	// PublisherStream is the stream that the log comes from. Without one the forwarder takes no part.
	PublisherStream *claim.PublisherStream
	// GoesOn returns the stream that the log goes on with, for the forwarder, or nil if it takes no part. It is called
	// as OnDone is. Default: it never takes part.
	GoesOn func(*track.Origin) *claim.PublisherStream
	// Timeouts are the delivery timeouts that the publisher wants.
	Timeouts Timeouts
	// Group, Subgroup and Priority (the Publisher Priority) order the streams of a subscription.
	Group, Subgroup uint64
	Priority        uint8
	// OnOpen is called when the stream has its id, with the sender's lock held. Default: nothing happens.
	OnOpen func(id int64)
	// OnDone is called once, when nothing more of the log will be sent: on a goroutine of the loop, without locks
	// held, and never from within a call of this package's methods. It must not block for long, because others'
	// packets wait.
	OnDone func(Result)
}

// OpenStream adds a stream. It is opened on the wire when it is its turn and there is something to send besides the
// prefix. OpenStream fails with [ErrClosed] after the end of the subscription or the connection, and with
// [track.ErrDiscarded] if the log has released Start.
func (sub *Subscription) OpenStream(cfg StreamConfig) (*Stream, error) {
	s := sub.sender
	state, adopted, reader, err := s.link.openStream(&cfg)
	if err != nil {
		return nil, err
	}
	st := newStream(sub, cfg, reader)
	st.state, st.shared = state, state != nil
	s.mu.Lock()
	if sub.closed || s.closed {
		s.mu.Unlock()
		reader.Close()
		s.link.giveBack(state, adopted)
		return nil, ErrClosed
	}
	st.begin(adopted)
	s.mu.release()
	s.shard.enqueue(s)
	return st, nil
}

// SetOrder changes the Subscriber Priority and the Group Order, also of streams and datagrams that wait.
func (sub *Subscription) SetOrder(priority uint8, descending bool) {
	s := sub.sender
	s.mu.Lock()
	defer s.mu.release()
	if priority == sub.priority && descending == sub.descending {
		return
	}
	var units []*unit
	for _, l := range sub.lanes {
		units = append(units, l.units...)
	}
	for _, u := range units {
		s.ready.remove(u)
	}
	sub.priority, sub.descending, sub.lanes = priority, descending, nil
	for _, u := range units {
		s.ready.add(u)
	}
	for _, st := range s.streams.all {
		if st.sub == sub {
			st.state.Level.Store(uint32(st.level()))
		}
	}
	s.observer.apply()
	s.shard.enqueue(s)
}

// SetTimeouts changes the delivery timeouts that the subscriber wants, also of streams and datagrams that wait.
func (sub *Subscription) SetTimeouts(t Timeouts) {
	s := sub.sender
	s.mu.Lock()
	defer s.mu.release()
	sub.timeouts = t
	for _, st := range s.streams.all {
		if st.sub == sub {
			st.setDeadline()
		}
	}
	s.shard.enqueue(s)
}

// SetPatience sets for how long data may wait, at least, before its group counts as late: the subscriber has told that
// it still has something to show. See [Limits.GroupDeadline]. Default: 0.
func (sub *Subscription) SetPatience(d time.Duration) {
	s := sub.sender
	s.mu.Lock()
	defer s.mu.release()
	sub.patience = d
}

// Finish ends the subscription's waiting for logs that are cut: their streams are reset with an application's code, as
// soon as all whole objects have arrived.
func (sub *Subscription) Finish(code uint64) {
	s := sub.sender
	s.mu.Lock()
	defer s.mu.release()
	sub.finishing, sub.finishCode = true, code
	for i := len(s.streams.all) - 1; i >= 0; i-- {
		if st := s.streams.all[i]; st.sub == sub {
			st.update()
		}
	}
	s.shard.enqueue(s)
}

// Close ends the subscription: its incomplete streams are reset with an application's code, its datagrams are dropped.
func (sub *Subscription) Close(code uint64) {
	s := sub.sender
	s.mu.Lock()
	defer s.mu.release()
	if sub.closed {
		return
	}
	sub.closed = true
	sub.dropDatagramsLocked()
	for i := len(s.streams.all) - 1; i >= 0; i-- {
		if st := s.streams.all[i]; st.sub == sub {
			st.cancel(code)
		}
	}
	s.shard.enqueue(s)
}

// lane returns the subscription's lane at a level.
func (sub *Subscription) lane(level Level) *lane {
	for _, l := range sub.lanes {
		if l.level == level {
			return l
		}
	}
	l := &lane{level: level}
	sub.lanes = append(sub.lanes, l)
	return l
}

// SendDatagram queues a datagram. Datagrams that are too large for the path, too late or too many are dropped and
// counted, as the draft wants (§11.3). The only error is [ErrClosed].
func (sub *Subscription) SendDatagram(d Datagram) error {
	s := sub.sender
	s.mu.Lock()
	defer s.mu.release()
	if sub.closed || s.closed {
		return ErrClosed
	}
	q := &queued{Datagram: d, since: s.loop.clock.Now()}
	q.unit = unit{sub: sub, priority: d.Priority, group: d.Group, minor: d.Object}
	q.datagram = q
	if s.admit(q.admission()) != claim.Admitted {
		s.counters.count(DatagramDropped)
		return nil
	}
	if sub.datagrams == maxDatagrams {
		sub.dropOldestDatagramLocked()
	}
	sub.datagrams++
	s.ready.add(&q.unit)
	s.shard.enqueue(s)
	return nil
}

func (sub *Subscription) dropOldestDatagramLocked() {
	var oldest *queued
	for q := range sub.datagramsLocked() {
		if oldest == nil || q.since < oldest.since {
			oldest = q
		}
	}
	oldest.drop(DatagramQueueFull)
}

// dropDatagramsLocked drops the datagrams of a subscription that ends.
func (sub *Subscription) dropDatagramsLocked() {
	for _, q := range slices.Collect(sub.datagramsLocked()) {
		q.drop(DatagramClosed)
	}
}

// datagramsLocked yields the datagrams that wait, in no order.
func (sub *Subscription) datagramsLocked() iter.Seq[*queued] {
	return func(yield func(*queued) bool) {
		for _, l := range sub.lanes {
			for _, u := range l.units {
				if u.datagram != nil && !yield(u.datagram) {
					return
				}
			}
		}
	}
}

// State returns how fast the data of the subscription gets to the subscriber now.
func (sub *Subscription) State() SubscriptionState {
	s := sub.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	state := SubscriptionState{
		State: s.control.path(), Sent: s.state.Bytes.Load(), Dropping: s.dropping(),
	}
	now := s.loop.clock.Now()
	for _, st := range s.streams.all {
		if st.sub == sub && st.reader != nil {
			state.Lag = max(state.Lag, st.waited(now))
		}
	}
	return state
}

// SubscriptionState is how fast the data of a subscription gets to the subscriber.
type SubscriptionState struct {
	congestion.State
	// Lag is the age of the oldest byte of the subscription that could be sent if the path allowed it.
	Lag time.Duration
	// Sent counts the bytes of all packets of the connection.
	Sent uint64
	// Dropping is whether something of the connection is held back: by the threshold of the drop policy, by its bucket,
	// or by an operator's rule, which has declined something a moment ago.
	Dropping bool
}
