package media

import (
	"fmt"
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
	mid.SetOrder(100, false)
	mid.SetOrder(100, true)

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

// A new Subscriber Priority, and a new Group Order, apply to streams and datagrams that wait.
func TestSetOrder(t *testing.T) {
	f := &fixedController{window: 2 * testMTU}
	w := newWorld(t, withController(f))
	a, b := w.subscribe(), w.subscribe()
	la, lb := newTestLog(0, 20_000), newTestLog(1<<40, 20_000)
	w.stream(a, la)
	w.stream(b, lb)
	require.NoError(t, a.SendDatagram(Datagram{Payload: []byte("x"), Priority: 255, Received: w.clock.Wall()}))
	w.run()
	w.ack(10 * ms)
	b.SetOrder(7, false)
	a.SetOrder(128, false)
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
