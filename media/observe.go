package media

import (
	"cmp"
	"slices"
	"sluice/clock"
	"sluice/congestion"
	"time"
)

// How often a sender looks after data that waits.
const (
	policyInterval  = 10 * time.Millisecond
	backlogInterval = 100 * time.Millisecond
)

// Events is told what happens, on a goroutine of the loop and without locks held. Methods must not block for long. Embed [NoEvents] to
// implement some of them.
type Events interface {
	// TooFarBehind reports, once, a subscription that lags more than the configured limits. The owner ought to end it with
	// TOO_FAR_BEHIND (draft §8).
	TooFarBehind(sub *Subscription, bytes int64, lag time.Duration)
	// CongestionEvent reports that packets were lost, after the controller has reacted.
	CongestionEvent(s *Sender, c congestion.State, persistent bool)
	// ThresholdChanged reports what the drop policy has decided.
	ThresholdChanged(s *Sender, threshold Level)
}

// NoEvents ignores all events.
type NoEvents struct{}

// TooFarBehind implements [Events].
func (NoEvents) TooFarBehind(*Subscription, int64, time.Duration) {}

// CongestionEvent implements [Events].
func (NoEvents) CongestionEvent(*Sender, congestion.State, bool) {}

// ThresholdChanged implements [Events].
func (NoEvents) ThresholdChanged(*Sender, Level) {}

// dataWaits says if there is data that cannot be sent now.
func (s *Sender) dataWaits() bool { return !s.ready.empty() || s.parkedStreams > 0 }

// nextLook plans the next look at data that waits, and returns when it is. What waits for a moment only costs nothing.
func (s *Sender) nextLook(now clock.Time) clock.Time {
	switch {
	case !s.dataWaits() && s.threshold == LowestPriority:
		s.look = clock.Never
	case s.look == clock.Never && s.cfg.DropPolicy != nil:
		s.look = now.Add(policyInterval)
	case s.look == clock.Never:
		s.look = now.Add(backlogInterval)
	}
	return s.look
}

// observe looks at data that waits: it asks the drop policy, and reports subscriptions that are too far behind.
func (s *Sender) observe(now clock.Time) {
	if now < s.look {
		return
	}
	s.look = clock.Never
	s.levels = s.levels[:0]
	for _, st := range s.streams {
		st.sub.waiting, st.sub.lag = 0, 0
	}
	for _, st := range s.streams {
		if st.reader != nil {
			s.observeStream(now, st)
		}
	}
	for _, st := range s.streams {
		s.reportBehind(st.sub)
	}
	if p := s.cfg.DropPolicy; p != nil {
		s.setThreshold(p.Threshold(now, s.congestion(), s.levels))
	}
}

// observeStream adds a stream to the backlogs of its level and its subscription.
func (s *Sender) observeStream(now clock.Time, st *Stream) {
	level := st.level()
	i, found := slices.BinarySearchFunc(s.levels, level, func(b Backlog, l Level) int { return cmp.Compare(b.Level, l) })
	if !found {
		s.levels = slices.Insert(s.levels, i, Backlog{Level: level})
	}
	l := &s.levels[i]
	l.Streams++
	end, _, more := st.fresh()
	if !more {
		return
	}
	next, _ := st.state.Cursor()
	age := min(s.age(st, next), now.Sub(st.added))
	l.Bytes += end - next
	l.Age = max(l.Age, age)
	st.sub.waiting += end - next
	st.sub.lag = max(st.sub.lag, age)
}

// age is how long ago the object at a log offset was received; 0 if that is not known.
func (s *Sender) age(st *Stream, offset int64) time.Duration {
	if !st.look(offset) {
		return 0
	}
	return s.loop.clock.Wall().Sub(st.object.Received)
}

func (s *Sender) reportBehind(sub *Subscription) {
	bytes, lag := s.cfg.MaxBehindBytes, s.cfg.MaxBehind
	if sub.reported || (bytes < 0 || sub.waiting <= bytes) && (lag < 0 || sub.lag <= lag) {
		return
	}
	sub.reported = true
	bytes, lag = sub.waiting, sub.lag
	s.after = append(s.after, func() { s.cfg.Events.TooFarBehind(sub, bytes, lag) })
}

// setThreshold applies what the drop policy says.
func (s *Sender) setThreshold(t Level) {
	if t == s.threshold {
		return
	}
	s.threshold = t
	s.state.Threshold.Store(uint32(t))
	s.applyThreshold()
	s.after = append(s.after, func() { s.cfg.Events.ThresholdChanged(s, t) })
}

// applyThreshold ends what is beyond the threshold.
func (s *Sender) applyThreshold() {
	for i := len(s.streams) - 1; i >= 0; i-- {
		s.update(s.streams[i])
	}
	for _, q := range s.ready.beyond(int(s.threshold)) {
		s.dropDatagram(q, DatagramDropped)
	}
}
