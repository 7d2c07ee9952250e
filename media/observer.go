package media

import (
	"cmp"
	"slices"
	"time"

	"sluice/clock"
)

// How often a sender looks at data that waits, and at data that it has sent and that is not acknowledged.
const (
	policyInterval  = 10 * time.Millisecond
	backlogInterval = 100 * time.Millisecond
	ackInterval     = time.Second
	streamInterval  = 2 * time.Microsecond // for each stream: a look at very many takes long
)

// maxAsked is how many streams with data an operator's rule is asked about at each look: it costs more than all else
// that is done for a stream then, also for streams whose subscriber gives no credit.
const maxAsked = 64

// observer looks at data that waits: it asks the drop policy, applies its limits, and reports subscriptions that are
// too far behind. It ends streams whose data is not acknowledged for too long. It is guarded by the sender's lock.
type observer struct {
	sender  *Sender
	limits  Limits
	due     clock.Time // when to look; never: nothing waits
	ackDue  clock.Time // when to look although nothing waits; never: everything is acknowledged
	levels  []Backlog  // for reuse
	unasked int        // streams, the first ones of all, that an operator's rule is still to be asked about
}

// waits reports whether there is data that cannot be sent now.
func (o *observer) waits() bool { return !o.sender.ready.empty() || o.sender.credit.parked > 0 }

// needed reports whether the drop policy has something to decide.
func (o *observer) needed() bool { return o.waits() || o.limits.hold() }

// unacknowledged reports whether streams may have data that was sent and is not acknowledged. Lost data waits.
func (o *observer) unacknowledged() bool {
	return len(o.sender.streams.all) > 0 && (o.sender.ledger.outstanding() || o.waits())
}

// pause returns how long there is no look, so that the sender has time for all else.
func (o *observer) pause() time.Duration {
	return time.Duration(len(o.sender.streams.all)) * streamInterval
}

// next plans the next look, and returns when it is. Data that waits for a moment only needs none.
func (o *observer) next(now clock.Time) clock.Time {
	switch {
	case !o.needed():
		o.due = clock.Never
		o.limits.GroupDeadline = 0 // the policy is not asked any more
	case o.due == clock.Never && (o.sender.cfg.DropPolicy != nil || o.sender.loop.rule != nil):
		o.due = now.Add(max(policyInterval, o.pause()))
	case o.due == clock.Never:
		o.due = now.Add(max(backlogInterval, o.pause()))
	}
	switch {
	case !o.unacknowledged():
		o.ackDue = clock.Never
	case o.ackDue == clock.Never:
		o.ackDue = now.Add(ackInterval)
	}
	return min(o.due, o.ackDue)
}

// observe looks, if it is time to.
func (o *observer) observe(now clock.Time) {
	if now < min(o.due, o.ackDue) {
		return
	}
	s := o.sender
	o.due, o.ackDue = clock.Never, clock.Never
	s.streams.expireUnacknowledged(now, s.cfg.AckTimeout)
	o.levels = o.levels[:0]
	for _, st := range s.streams.all {
		st.sub.behind, st.sub.lag, st.sub.newest = 0, 0, 0
	}
	for _, st := range s.streams.all {
		if st.reader != nil {
			o.add(now, st)
		}
	}
	for _, st := range s.streams.all {
		o.reportBehind(st.sub)
	}
	apply := s.loop.rule != nil
	if p := s.cfg.DropPolicy; p != nil && o.needed() {
		load := Load{State: s.control.path(), Levels: o.levels, Declined: s.counters.declined()}
		apply = o.setLimits(now, p.Decide(now, load)) || apply
	}
	if apply {
		o.apply()
	}
}

// add adds a stream to the backlogs of its level and its subscription.
func (o *observer) add(now clock.Time, st *Stream) {
	level := st.level()
	i, found := slices.BinarySearchFunc(o.levels, level, func(b Backlog, l Level) int {
		return cmp.Compare(b.Level, l)
	})
	if !found {
		o.levels = slices.Insert(o.levels, i, Backlog{Level: level})
	}
	l := &o.levels[i]
	l.Streams++
	if last, ok := st.log.Last(); ok {
		l.Largest = max(l.Largest, last.End-last.Start)
	}
	end, _, more := st.fresh()
	st.sub.behind += max(end-st.logOffset(st.released()), 0)
	if !more {
		return
	}
	next, _ := st.cursor()
	age := st.waited(now)
	l.Bytes += end - next
	l.Age = max(l.Age, age)
	st.sub.lag, st.sub.newest = max(st.sub.lag, age), max(st.sub.newest, st.group)
}

func (o *observer) reportBehind(sub *Subscription) {
	s := o.sender
	bytes, lag := s.cfg.MaxBehindBytes, s.cfg.MaxBehind
	if sub.reported || (bytes < 0 || sub.behind <= bytes) && (lag < 0 || sub.lag <= lag) {
		return
	}
	sub.reported = true
	bytes, lag = sub.behind, sub.lag
	s.mu.later(func() { sub.onBehind(bytes, lag) })
}

// setLimits stores what the drop policy has decided, and reports whether it may concern what waits.
func (o *observer) setLimits(now clock.Time, l Limits) (apply bool) {
	if l == o.limits && !l.endStreams() {
		return false
	}
	s := o.sender
	begun := l.Bucket.Rate != 0 && o.limits.Bucket.Rate == 0
	o.limits = l
	s.state.SetBucket(l.Bucket)
	if begun {
		s.state.FillBucket(now, bucketBegin)
	}
	s.state.Threshold.Store(uint32(l.Threshold))
	return true
}

// apply ends streams and drops datagrams beyond the limits, or asks an operator's rule.
func (o *observer) apply() {
	s := o.sender
	if s.loop.rule != nil {
		o.ask()
		return
	}
	for i := len(s.streams.all) - 1; i >= 0; i-- {
		s.streams.all[i].update()
	}
	for _, q := range s.ready.beyond(int(o.limits.Threshold)) {
		q.drop(DatagramDropped)
	}
}

// ask asks an operator's rule about streams that have data, and goes on from there at the next look. It was asked about
// datagrams when they came.
func (o *observer) ask() {
	all := &o.sender.streams.all
	if o.unasked == 0 {
		o.unasked = len(*all)
	}
	for asked := 0; asked < maxAsked; {
		o.unasked = min(o.unasked, len(*all)) // streams end meanwhile
		if o.unasked == 0 {
			return
		}
		o.unasked--
		st := (*all)[o.unasked]
		if st.reader == nil {
			continue
		}
		if _, _, more := st.fresh(); more {
			asked++
		}
		st.update()
	}
}
