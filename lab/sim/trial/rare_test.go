package trial

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRareSchedules checks that what few schedules have is valid, and that some have it.
func TestRareSchedules(t *testing.T) {
	var restarts, hasty, tight, drained, hurried, limited, taken, storms, roaming, slow int
	for seed := range uint64(300) {
		s := NewSchedule(seed)
		require.NoError(t, s.Validate(), seed)
		if len(s.Media.Restarts) > 0 {
			restarts++
		}
		for _, m := range s.Mishaps {
			if late := m.Talk.Late[3]; len(s.Media.Successions) > 0 && late > 0 {
				require.LessOrEqual(t, late, latest, "%d: a publisher may have to wait for the process", seed)
				slow++
			}
		}
		if s.Media.Successor.Hasty && len(s.Media.Successions) > 0 {
			hasty++
		}
		if s.Viewers[0].Streams > 0 {
			tight++
		}
		if slices.ContainsFunc(s.Mishaps, func(m Mishap) bool { return m.What == Drain }) {
			drained++
		}
		if slices.ContainsFunc(s.Mishaps, func(m Mishap) bool { return m.What == Storm }) {
			storms++
		}
		if slices.ContainsFunc(s.Mishaps, func(m Mishap) bool { return m.What == Readdress }) {
			roaming++
		}
		if s.Media.Timeouts.with(s.Viewers[0].Timeouts).Object > 0 {
			hurried++
		}
		if len(s.Media.Takeovers) > 0 {
			taken++
		}
		if s.Limits.Sessions > 0 {
			limited++
		}
	}
	require.Greater(t, min(restarts, hasty, tight, drained, hurried, limited, taken, storms, roaming), 5)
	require.NotZero(t, slow)
}

// TestGroupIDs restarts a publisher twice: each time, it begins with group 0.
func TestGroupIDs(t *testing.T) {
	m := Media{Restarts: []uint64{3, 5}}
	for group, id := range []uint64{0, 1, 2, 0, 1, 0, 1, 2} {
		require.Equal(t, id, m.groupID(uint64(group)), group)
	}
}
