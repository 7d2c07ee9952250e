package media

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sluice/internal/packet"
	"testing"

	"github.com/stretchr/testify/require"
)

func newUnit(sub *Subscription, publisher uint8, group, minor uint64) *unit {
	return &unit{sub: sub, priority: publisher, group: group, minor: minor}
}

func (u *unit) String() string { return fmt.Sprintf("%d.%d.%d", u.priority, u.group, u.minor) }

// order removes units in the order in which they are scheduled.
func order(s *scheduler) (names []string) {
	for !s.empty() {
		u := s.first()
		names = append(names, u.String())
		s.remove(u)
	}
	return names
}

// The rules of draft §7.2, one by one.
func TestSchedulingOrder(t *testing.T) {
	ascending, descending := &Subscription{priority: 128}, &Subscription{priority: 128, descending: true}
	high := &Subscription{priority: 1}
	for _, v := range []struct {
		name string
		in   []*unit
		want []string
	}{
		{
			"subscriber priority first",
			[]*unit{newUnit(ascending, 0, 0, 0), newUnit(high, 255, 9, 9)},
			[]string{"255.9.9", "0.0.0"},
		},
		{
			"then publisher priority",
			[]*unit{newUnit(ascending, 2, 0, 0), newUnit(ascending, 1, 9, 9)},
			[]string{"1.9.9", "2.0.0"},
		},
		{
			"then groups, ascending",
			[]*unit{newUnit(ascending, 1, 8, 0), newUnit(ascending, 1, 7, 5)},
			[]string{"1.7.5", "1.8.0"},
		},
		{
			"then groups, descending",
			[]*unit{newUnit(descending, 1, 7, 0), newUnit(descending, 1, 8, 5)},
			[]string{"1.8.5", "1.7.0"},
		},
		{
			"then subgroups",
			[]*unit{newUnit(ascending, 1, 7, 2), newUnit(ascending, 1, 7, 1)},
			[]string{"1.7.1", "1.7.2"},
		},
		{
			"subgroups ascend in any group order",
			[]*unit{newUnit(descending, 1, 7, 2), newUnit(descending, 1, 7, 1)},
			[]string{"1.7.1", "1.7.2"},
		},
		{
			"far groups",
			[]*unit{newUnit(ascending, 1, 1<<63, 0), newUnit(ascending, 1, 0, 0)},
			[]string{"1.0.0", "1.9223372036854775808.0"},
		},
	} {
		t.Run(v.name, func(t *testing.T) {
			for range 2 {
				var s scheduler
				for _, u := range v.in {
					s.add(u)
				}
				require.Equal(t, v.want, order(&s))
				slices.Reverse(v.in)
			}
		})
	}
}

// Subscriptions of equal priority take turns, whatever their groups are.
func TestTurns(t *testing.T) {
	var s scheduler
	subs := []*Subscription{{priority: 5}, {priority: 5}, {priority: 5, descending: true}}
	served := map[*Subscription]int{}
	for i, sub := range subs {
		for g := range 3 {
			s.add(newUnit(sub, 1, uint64(100*i+g), 0))
		}
	}
	for range 30 {
		u := s.first()
		served[u.sub]++
		s.served(u)
	}
	require.Equal(t, map[*Subscription]int{subs[0]: 10, subs[1]: 10, subs[2]: 10}, served)
}

// A subscription that comes and goes, as live ones do, neither starves nor starves others.
func TestTurnsOfNewcomers(t *testing.T) {
	var s scheduler
	a, b, c := newUnit(&Subscription{}, 1, 0, 0), newUnit(&Subscription{}, 1, 0, 0), newUnit(&Subscription{}, 1, 0, 0)
	s.add(a)
	s.add(b)
	var got []*unit
	next := func() {
		u := s.first()
		got = append(got, u)
		s.served(u)
	}
	next()
	s.add(c)
	for range 5 {
		next()
	}
	s.remove(got[5])
	require.Equal(t, []*unit{a, b, a, c, b, a}, got)
	require.Equal(t, c, s.first())
}

func TestSchedulerAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var s scheduler
		subs := []*Subscription{{priority: 1}, {priority: 2}, {priority: 2, descending: true}}
		var in, out []*unit
		for i := range 20 {
			out = append(out, newUnit(subs[rng.IntN(3)], uint8(rng.IntN(2)), uint64(rng.IntN(3)), uint64(i)))
		}
		for range 200 {
			if len(out) > 0 && (len(in) == 0 || rng.IntN(2) == 0) {
				i := rng.IntN(len(out))
				s.add(out[i])
				s.add(out[i])
				in = append(in, out[i])
				out = slices.Delete(out, i, i+1)
			} else {
				i := rng.IntN(len(in))
				s.remove(in[i])
				s.remove(in[i])
				out = append(out, in[i])
				in = slices.Delete(in, i, i+1)
			}
			checkFirst(t, &s, in)
			if u := s.first(); u != nil && rng.IntN(2) == 0 {
				s.served(u)
			}
		}
	}
}

// checkFirst checks that nothing goes before the first unit.
func checkFirst(t *testing.T, s *scheduler, in []*unit) {
	t.Helper()
	u := s.first()
	require.Equal(t, len(in) == 0, u == nil)
	require.Equal(t, len(in) == 0, s.empty())
	for _, v := range in {
		require.LessOrEqual(t, u.level(), v.level())
		if v.sub == u.sub && v.level() == u.level() && v != u {
			require.False(t, v.before(u), "%v before %v", v, u)
		}
	}
	n := 0
	for i, tier := range s.tiers {
		require.NotEmpty(t, tier.lanes)
		require.Less(t, tier.turn, len(tier.lanes))
		require.True(t, i == 0 || s.tiers[i-1].level < tier.level)
		for _, l := range tier.lanes {
			n += len(l.units)
			require.NotEmpty(t, l.units)
		}
	}
	require.Equal(t, len(in), n)
}

// The order in which packets leave.
func TestSendingOrder(t *testing.T) {
	f := &fixedController{window: 2 * testMTU}
	w := newWorld(t, withController(f))
	low := w.subscribe(func(c *SubscriptionConfig) { c.Priority = 200 })
	mid := w.subscribe(func(c *SubscriptionConfig) { c.Priority = 100; c.Descending = true })
	high := w.subscribe(func(c *SubscriptionConfig) { c.Priority = 1 })
	open := func(sub *Subscription, priority uint8, group, subgroup uint64) {
		l := newTestLog(int64(sub.priority)<<24|int64(priority)<<16|int64(group)<<8|int64(subgroup), 1000)
		l.Finish()
		w.stream(sub, l, func(c *StreamConfig) {
			c.Priority, c.Group, c.Subgroup, c.Prefix = priority, group, subgroup, nil
		})
	}
	datagram := func(sub *Subscription, priority uint8, group, object uint64, name string) {
		d := Datagram{Payload: []byte(name), Priority: priority, Group: group, Object: object, Received: w.clock.Wall()}
		require.NoError(t, sub.SendDatagram(d))
	}
	open(low, 0, 1, 0)
	datagram(low, 0, 0, 7, "low object 7")
	datagram(low, 0, 0, 3, "low object 3")
	open(mid, 2, 5, 1)
	open(mid, 2, 6, 0)
	open(mid, 1, 1, 0)
	open(mid, 2, 5, 0)
	open(high, 255, 0, 0)
	datagram(high, 9, 9, 9, "high")

	var got []string
	for range 20 {
		for _, p := range w.run() {
			if p.frame == packet.FrameDatagram {
				got = append(got, string(p.data))
				continue
			}
			require.True(t, p.fin)
			for _, key := range []string{
				"high 255.0.0", "mid 1.1.0", "mid 2.6.0", "mid 2.5.0", "mid 2.5.1", "low 0.1.0",
			} {
				var name string
				var a, b, c int64
				fmt.Sscanf(key, "%s %d.%d.%d", &name, &a, &b, &c)
				priority := map[string]int64{"high": 1, "mid": 100, "low": 200}[name]
				if slices.Equal(p.data, testBytes(priority<<24|a<<16|b<<8|c, 1000)) {
					got = append(got, key)
				}
			}
		}
		w.ack(10 * ms)
	}
	require.Equal(t, []string{
		"high", "high 255.0.0", "mid 1.1.0", "mid 2.6.0", "mid 2.5.0", "mid 2.5.1",
		"low object 3", "low object 7", "low 0.1.0",
	}, got)
	// ids are given in the order in which streams are opened on the wire
	require.Len(t, w.peer.streams, 6)
}

// A new Subscriber Priority applies to streams and datagrams that wait.
func TestSetPriority(t *testing.T) {
	f := &fixedController{window: 2 * testMTU}
	w := newWorld(t, withController(f))
	a, b := w.subscribe(), w.subscribe()
	la, lb := newTestLog(0, 20_000), newTestLog(1<<40, 20_000)
	w.stream(a, la)
	w.stream(b, lb)
	require.NoError(t, a.SendDatagram(Datagram{Payload: []byte("x"), Priority: 255, Received: w.clock.Wall()}))
	w.run()
	w.ack(10 * ms)
	b.SetPriority(7)
	a.SetPriority(128)
	first := w.run()
	require.Len(t, first, 2)
	require.Equal(t, first[0].id, first[1].id)
	require.Equal(t, levelOf(7, 128), Level(w.s.streams.byNumber[uint32(first[0].id/4)].state.Level.Load()))
	for range 40 {
		w.ack(10 * ms)
		w.run()
	}
	require.Len(t, w.peer.datagrams, 1)
	require.Zero(t, len(w.s.ready.tiers))
}
