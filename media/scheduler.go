package media

import (
	"cmp"
	"slices"
)

// unit is what can be scheduled: the next bytes of a stream, or a datagram. It is guarded by the sender's lock.
type unit struct {
	sub      *Subscription
	priority uint8  // Publisher Priority
	group    uint64 // Group ID
	minor    uint64 // Subgroup ID or Object ID
	stream   *Stream
	datagram *queued

	lane  *lane // nil: not scheduled
	index int   // in lane.units
}

func (u *unit) level() Level { return levelOf(u.sub.priority, u.priority) }

// before reports whether u goes before v of the same subscription and level (draft §7.2, third and fourth rule).
func (u *unit) before(v *unit) bool {
	if u.group != v.group {
		return u.group < v.group != u.sub.descending
	}
	return u.minor < v.minor
}

// scheduler orders units as the draft says (§7.2): by Subscriber Priority and Publisher Priority (a tier), within a
// tier in turns between subscriptions (a lane), within a lane by group in Group Order and then by Subgroup ID or
// Object ID. It is guarded by the sender's lock.
type scheduler struct {
	tiers []*tier // ascending levels; none is empty
	spare *tier
}

type tier struct {
	level Level
	lanes []*lane // none is empty
	turn  int
}

// lane is a binary heap of the units of one subscription at one level.
type lane struct {
	tier  *tier
	level Level
	units []*unit
}

func (s *scheduler) empty() bool { return len(s.tiers) == 0 }

// first returns the unit whose turn it is, or nil.
func (s *scheduler) first() *unit {
	if s.empty() {
		return nil
	}
	t := s.tiers[0]
	return t.lanes[t.turn].units[0]
}

// served gives the next subscription of u's level its turn.
func (s *scheduler) served(u *unit) {
	if u.lane != nil {
		u.lane.tier.turn = (u.lane.tier.turn + 1) % len(u.lane.tier.lanes)
	}
}

// add schedules u, if it is not.
func (s *scheduler) add(u *unit) {
	if u.lane != nil {
		return
	}
	l := u.sub.lane(u.level())
	if len(l.units) == 0 {
		s.insert(l)
	}
	u.lane, u.index = l, len(l.units)
	l.units = append(l.units, u)
	l.up(u.index)
}

// remove unschedules u, if it is scheduled.
func (s *scheduler) remove(u *unit) {
	l := u.lane
	if l == nil {
		return
	}
	last := len(l.units) - 1
	i := u.index
	l.swap(i, last)
	l.units[last] = nil
	l.units = l.units[:last]
	u.lane = nil
	if last == 0 {
		s.delete(l)
	} else if i < last {
		l.up(i)
		l.down(i)
	}
}

// beyond returns the datagrams above a level: all of them for -1.
func (s *scheduler) beyond(level int) []*queued {
	var all []*queued
	for _, t := range s.tiers {
		for _, l := range t.lanes {
			for _, u := range l.units {
				if u.datagram != nil && int(t.level) > level {
					all = append(all, u.datagram)
				}
			}
		}
	}
	return all
}

// insert adds a lane that has become non-empty. It goes before the lane whose turn it is, so its turn comes last.
func (s *scheduler) insert(l *lane) {
	i, found := slices.BinarySearchFunc(s.tiers, l.level, func(t *tier, level Level) int {
		return cmp.Compare(t.level, level)
	})
	if !found {
		t := s.spare
		s.spare = nil
		if t == nil {
			t = new(tier)
		}
		t.level, t.turn = l.level, 0
		s.tiers = slices.Insert(s.tiers, i, t)
	}
	l.tier = s.tiers[i]
	if len(l.tier.lanes) == 0 {
		l.tier.lanes = append(l.tier.lanes, l)
		return
	}
	l.tier.lanes = slices.Insert(l.tier.lanes, l.tier.turn, l)
	l.tier.turn++
}

// delete removes a lane that has become empty.
func (s *scheduler) delete(l *lane) {
	t := l.tier
	l.tier = nil
	i := slices.Index(t.lanes, l)
	t.lanes = slices.Delete(t.lanes, i, i+1)
	if i < t.turn {
		t.turn--
	}
	if len(t.lanes) > 0 {
		t.turn %= len(t.lanes)
		return
	}
	i = slices.Index(s.tiers, t)
	s.tiers = slices.Delete(s.tiers, i, i+1)
	s.spare = t
}

func (l *lane) swap(i, j int) {
	l.units[i], l.units[j] = l.units[j], l.units[i]
	l.units[i].index, l.units[j].index = i, j
}

func (l *lane) up(i int) {
	for i > 0 && l.units[i].before(l.units[(i-1)/2]) {
		l.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (l *lane) down(i int) {
	for {
		c := 2*i + 1
		if c+1 < len(l.units) && l.units[c+1].before(l.units[c]) {
			c++
		}
		if c >= len(l.units) || !l.units[c].before(l.units[i]) {
			return
		}
		l.swap(i, c)
		i = c
	}
}
