package trial

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
)

// TestShrink finds the only mishap that a failure needs, and leaves out all else.
func TestShrink(t *testing.T) {
	s, tried := NewSchedule(1), 0
	s.Upstream = shapes[2]
	s.Paths = []Path{{2, 1, sim.Link{Loss: 0.1}}, {3, 1, sim.Link{}}, {4, 2, sim.Link{}}, {4, 3, sim.Link{}}}
	s.Mishaps = []Mishap{
		{At: time.Second, What: Kill, Relay: 2, Lasts: time.Second},
		{At: 2 * time.Second, What: Rebind, Viewer: 1},
		{At: 3 * time.Second, What: Cut, Relay: 2, Upstream: 1, Lasts: time.Second},
	}
	least := Shrink(s, 1000, func(c *Schedule) bool {
		tried++
		for _, m := range c.Mishaps {
			if m.What == Cut && c.last() >= 2 {
				return true
			}
		}
		return false
	})
	require.Len(t, least.Mishaps, 1)
	assert.Equal(t, s.Mishaps[2], least.Mishaps[0])
	assert.Equal(t, [][]int{nil, {1}}, least.Upstream)
	assert.Equal(t, []Path{{2, 1, sim.Link{}}}, least.Paths)
	assert.Len(t, least.Viewers, 1)
	assert.Empty(t, least.Media.Successions)
	assert.GreaterOrEqual(t, least.length(), 3*time.Second, "the mishap is during the media")
	assert.Less(t, tried, 200)
	assert.Len(t, s.Mishaps, 3, "the schedule itself is as before")
}

// TestShrinkCluster leaves out the nodes of a cluster that a failure does not need. The others take their numbers.
func TestShrinkCluster(t *testing.T) {
	s := NewSchedule(1)
	for seed := uint64(2); s.Cluster == nil || s.last() < 5; seed++ {
		s = NewSchedule(seed)
	}
	s.Viewers[0].Relay = 3
	s.Mishaps = []Mishap{{At: time.Second, What: Part, Relay: 3, Lasts: time.Second}}
	parted := s.Cluster.Nodes[2].Name
	least := Shrink(s, 1000, func(c *Schedule) bool { return c.Cluster != nil && len(c.Mishaps)*len(c.Viewers) > 0 })
	require.NoError(t, least.Validate())
	assert.Equal(t, 2, least.last())
	assert.Equal(t, []Mishap{{At: time.Second, What: Part, Relay: 2, Lasts: time.Second}}, least.Mishaps)
	assert.Equal(t, []Node{{Name: s.Cluster.Nodes[0].Name}, {Name: parted}}, least.Cluster.Nodes)
	assert.Len(t, least.Paths, 1)
	assert.Equal(t, Messages{Servers: s.Cluster.Messages.Servers, Delay: s.Cluster.Messages.Delay},
		least.Cluster.Messages)
	least = Shrink(s, 1000, func(*Schedule) bool { return true })
	assert.Nil(t, least.Cluster)
	assert.Equal(t, [][]int{nil}, least.Upstream)
}

func TestShrinkIsBounded(t *testing.T) {
	tried := 0
	Shrink(NewSchedule(1), 5, func(*Schedule) bool { tried++; return false })
	assert.Equal(t, 5, tried)
}

// TestScheduleIsData writes and reads schedules.
func TestScheduleIsData(t *testing.T) {
	for seed := range uint64(100) {
		s := NewSchedule(seed)
		b, err := json.Marshal(s)
		require.NoError(t, err)
		var again Schedule
		require.NoError(t, json.Unmarshal(b, &again))
		require.Equal(t, s, &again)
		require.Equal(t, s, NewSchedule(seed))
		require.NoError(t, s.Validate())
		for _, m := range s.Mishaps {
			require.True(t, s.has(m), "%+v", m)
		}
	}
}
