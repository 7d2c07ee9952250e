package media

import "sluice/clock"

// task is a sender as its shard sees it.
type task struct {
	queued bool       // among the runnable; guarded by shard.mu
	alarm  clock.Time // the goroutine's own
	index  int        // in alarms, or -1; the goroutine's own
}

// alarms is a binary heap of senders by alarm. It belongs to the shard's goroutine. An alarm that is put off stays
// where it is: when it goes off, the sender is served and sets another. That is far cheaper than to move it with each
// packet.
type alarms []*Sender

// next returns the first alarm.
func (a alarms) next() clock.Time {
	if len(a) == 0 {
		return clock.Never
	}
	return a[0].task.alarm
}

// due removes and returns a sender whose alarm is due, or returns nil.
func (a *alarms) due(now clock.Time) *Sender {
	if a.next() > now {
		return nil
	}
	s := (*a)[0]
	a.remove(s)
	return s
}

// set makes sure that the sender is served by then. clock.Never removes its alarm.
func (a *alarms) set(s *Sender, at clock.Time) {
	switch {
	case at == clock.Never:
		a.remove(s)
		return
	case s.task.index < 0:
		s.task.alarm, s.task.index = at, len(*a)
		*a = append(*a, s)
	case at < s.task.alarm:
		s.task.alarm = at
	default:
		return
	}
	a.up(s.task.index)
}

func (a *alarms) remove(s *Sender) {
	if s.task.index < 0 {
		return
	}
	i, last := s.task.index, len(*a)-1
	a.swap(i, last)
	(*a)[last] = nil
	*a = (*a)[:last]
	if i < last {
		a.up(i)
		a.down(i)
	}
	s.task.index = -1
}

func (a alarms) swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].task.index, a[j].task.index = i, j
}

func (a alarms) up(i int) {
	for i > 0 && a[i].task.alarm < a[(i-1)/2].task.alarm {
		a.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (a alarms) down(i int) {
	for {
		c := 2*i + 1
		if c+1 < len(a) && a[c+1].task.alarm < a[c].task.alarm {
			c++
		}
		if c >= len(a) || a[c].task.alarm >= a[i].task.alarm {
			return
		}
		a.swap(i, c)
		i = c
	}
}
