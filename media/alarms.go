package media

import "sluice/clock"

// alarms is a binary heap of senders by alarm. An alarm that is put off stays where it is: when it goes off the sender is served and
// sets another. That is far cheaper than to move it with each packet.
type alarms []*Sender

// next returns the first alarm.
func (a alarms) next() clock.Time {
	if len(a) == 0 {
		return clock.Never
	}
	return a[0].alarm
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

// set makes sure that the sender is served by then, or takes its alarm away if it is never.
func (a *alarms) set(s *Sender, at clock.Time) {
	switch {
	case at == clock.Never:
		a.remove(s)
		return
	case s.alarmIndex < 0:
		s.alarm, s.alarmIndex = at, len(*a)
		*a = append(*a, s)
	case at < s.alarm:
		s.alarm = at
	default:
		return
	}
	a.up(s.alarmIndex)
}

func (a *alarms) remove(s *Sender) {
	if s.alarmIndex < 0 {
		return
	}
	i, last := s.alarmIndex, len(*a)-1
	a.swap(i, last)
	(*a)[last] = nil
	*a = (*a)[:last]
	if i < last {
		a.up(i)
		a.down(i)
	}
	s.alarmIndex = -1
}

func (a alarms) swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].alarmIndex, a[j].alarmIndex = i, j
}

func (a alarms) up(i int) {
	for i > 0 && a[i].alarm < a[(i-1)/2].alarm {
		a.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (a alarms) down(i int) {
	for {
		c := 2*i + 1
		if c+1 < len(a) && a[c+1].alarm < a[c].alarm {
			c++
		}
		if c >= len(a) || a[c].alarm >= a[i].alarm {
			return
		}
		a.swap(i, c)
		i = c
	}
}
