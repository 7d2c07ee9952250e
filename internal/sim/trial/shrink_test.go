package trial

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sluice/internal/sim"
)

// TestShrink finds the one mishap that a failure needs, and leaves out all else.
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
		for _, m := range s.Mishaps {
			require.True(t, s.has(m), "%+v", m)
		}
	}
}
