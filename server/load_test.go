package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/relay"
	"sluice/server/cluster/clustertest"
)

// TestLoad uses one resource after another.
func TestLoad(t *testing.T) {
	const second = time.Second
	begin := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		capacity float64
		each     usage // that a second adds; sessions are what there is
		want     float64
	}{
		"nothing":               {1e9, usage{}, 0},
		"sessions":              {1e9, usage{sessions: 0.5}, 0.5},
		"half of one processor": {1e9, usage{cpu: second / 2}, 0.125},
		"all processors":        {1e9, usage{cpu: 5 * second}, 1},
		"the link":              {1e9, usage{bytes: 1e8}, 0.8},
		"a link of any rate":    {0, usage{bytes: 1e12}, 0},
		"the scarcest counts":   {1e9, usage{sessions: 0.1, cpu: second, bytes: 5e7}, 0.4},
	} {
		t.Run(name, func(t *testing.T) {
			m := loadMeter{cpus: 4, capacity: tc.capacity}
			now := usage{at: begin, sessions: tc.each.sessions}
			require.Equal(t, tc.each.sessions, m.measure(now))
			for range 100 {
				now.at = now.at.Add(second)
				now.cpu += tc.each.cpu
				now.bytes += tc.each.bytes
				require.LessOrEqual(t, m.measure(now), 1.)
			}
			require.InDelta(t, tc.want, m.value, 0.001)
			value := m.value
			require.Equal(t, value, m.measure(now), "no time has passed")
		})
	}
}

// TestLoadIsSmoothed uses everything for one second, and for a minute.
func TestLoadIsSmoothed(t *testing.T) {
	m := loadMeter{cpus: 1}
	now := usage{at: time.Unix(1000, 0)}
	m.measure(now)
	step := func() float64 {
		now.at = now.at.Add(time.Second)
		now.cpu += time.Second
		return m.measure(now)
	}
	require.Less(t, step(), 0.1, "a burst")
	for range 60 {
		step()
	}
	require.Greater(t, m.value, 0.95)
}

// TestNodeTellsItsLoad has a node that a publisher and a subscriber use.
func TestNodeTellsItsLoad(t *testing.T) {
	var bus clustertest.Bus
	s := listenNode(t, Config{Relay: relay.Config{MaxSessions: 8}}, "a")
	require.NoError(t, s.JoinCluster(ClusterConfig{
		Engine: bus.Engine("a"), Node: "a", URL: fmt.Sprint("moqt://", s.Addr()),
	}))
	r := run(s)
	t.Cleanup(func() { r.end(t) })
	send := publish(t, s, "video")
	got := receive(t, s, "video")
	send(0, []byte("media"))
	got.await(t)
	u := newLoadMeter(s, 1).usage(time.Now())
	require.Equal(t, 0.25, u.sessions)
	require.NotZero(t, u.cpu)
	require.GreaterOrEqual(t, u.bytes, uint64(len("media")))
	await(t, "the node tells its load", func() bool { return s.mesh.card.Load().Load > 0 })
}
