package media

import (
	"cmp"
	"slices"
	"time"

	"sluice/clock"
	"sluice/congestion"
)

// How often a sender looks at data that waits.
const (
	policyInterval  = 10 * time.Millisecond
	backlogInterval = 100 * time.Millisecond
)

// observer looks at data that waits: it asks the drop policy, applies its threshold, and reports subscriptions that
// are too far behind. It is guarded by the sender's lock.
type observer struct {
	sender    *Sender
	threshold Level
	due       clock.Time // when to look; never: nothing waits
	levels    []Backlog  // for reuse
}

func newObserver(s *Sender) observer {
	return observer{sender: s, threshold: LowestPriority, due: clock.Never}
}

// waits reports whether there is data that cannot be sent now.
func (o *observer) waits() bool { return !o.sender.ready.empty() || o.sender.credit.parked > 0 }

// next plans the next look, and returns when it is. Data that waits for a moment only needs none.
func (o *observer) next(now clock.Time) clock.Time {
	switch {
	case !o.waits() && o.threshold == LowestPriority:
		o.due = clock.Never
	case o.due == clock.Never && o.sender.cfg.DropPolicy != nil:
		o.due = now.Add(policyInterval)
	case o.due == clock.Never:
		o.due = now.Add(backlogInterval)
	}
	return o.due
}

// observe looks, if it is time to.
func (o *observer) observe(now clock.Time) {
	if now < o.due {
		return
	}
	s := o.sender
	o.due = clock.Never
	o.levels = o.levels[:0]
	for _, st := range s.streams.all {
		st.sub.waiting, st.sub.lag = 0, 0
	}
	for _, st := range s.streams.all {
		if st.reader != nil {
			o.add(now, st)
		}
	}
	for _, st := range s.streams.all {
		o.reportBehind(st.sub)
	}
	if p := s.cfg.DropPolicy; p != nil {
		o.setThreshold(p.Threshold(now, s.control.path(), o.levels))
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
	end, _, more := st.fresh()
	if !more {
		return
	}
	next, _ := st.state.Cursor()
	age := min(st.age(next), now.Sub(st.added))
	l.Bytes += end - next
	l.Age = max(l.Age, age)
	st.sub.waiting += end - next
	st.sub.lag = max(st.sub.lag, age)
}

func (o *observer) reportBehind(sub *Subscription) {
	s := o.sender
	bytes, lag := s.cfg.MaxBehindBytes, s.cfg.MaxBehind
	if sub.reported || (bytes < 0 || sub.waiting <= bytes) && (lag < 0 || sub.lag <= lag) {
		return
	}
	sub.reported = true
	bytes, lag = sub.waiting, sub.lag
	s.mu.later(func() { s.cfg.Events.TooFarBehind(sub, bytes, lag) })
}

// setThreshold applies what the drop policy has decided.
func (o *observer) setThreshold(t Level) {
	if t == o.threshold {
		return
	}
	s := o.sender
	o.threshold = t
	s.state.Threshold.Store(uint32(t))
	o.apply()
	s.mu.later(func() { s.cfg.Events.ThresholdChanged(s, t) })
}

// apply ends streams and drops datagrams beyond the threshold.
func (o *observer) apply() {
	s := o.sender
	for i := len(s.streams.all) - 1; i >= 0; i-- {
		s.streams.all[i].update()
	}
	for _, q := range s.ready.beyond(int(o.threshold)) {
		q.drop(DatagramDropped)
	}
}

// reportLoss reports lost packets, if there are any.
func (o *observer) reportLoss(e congestion.LossEvent) {
	if e.Packets == 0 {
		return
	}
	s := o.sender
	c := s.control.path()
	s.mu.later(func() { s.cfg.Events.CongestionEvent(s, c, e.Persistent) })
}
