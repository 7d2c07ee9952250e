package kernel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/bpf"
)

// TestCleanUpLooksWhenItMust has queries that time out after 10 s, by a clock of its own. There is a look at the table
// at first, when the earliest query has timed out, and else after 9 s, because of queries that come meanwhile.
func TestCleanUpLooksWhenItMust(t *testing.T) {
	requireKernel(t)
	k, err := Load(bpf.MonitorSettings{Dns: 1, Replay: 1, Batch: 1}, bpf.Limits{Queries: 64, RingBytes: 4096}, nil)
	require.NoError(t, err)
	defer k.Close()
	const begin = 1000 * time.Second
	queries := k.Maps[bpf.MonitorMapQueries]
	ask := func(id uint64, at time.Duration) {
		require.NoError(t, queries.Put(bpf.MonitorQueryKey{Id: id}, bpf.MonitorQuery{Time: uint64(begin + at)}))
	}
	// clean returns whether there was a look at the table, and how many queries were removed.
	clean := func(at time.Duration) (looked bool, removed uint64) {
		now := uint64(begin + at)
		require.NoError(t, k.SetClock(now, 0))
		before := expiry(t, k)
		counters, err := k.Counters()
		require.NoError(t, err)
		removed = counters.Tally[bpf.MonitorTallyTALLY_QUERIES_EXPIRED]
		due, err := k.Due(now)
		require.NoError(t, err)
		require.NoError(t, k.CleanUp(now))
		counters, err = k.Counters()
		require.NoError(t, err)
		looked = expiry(t, k) != before
		require.Equal(t, looked, now > before)
		require.True(t, due || !looked)
		return looked, counters.Tally[bpf.MonitorTallyTALLY_QUERIES_EXPIRED] - removed
	}
	for _, step := range []struct {
		at      time.Duration
		looked  bool
		removed uint64
	}{
		{0, true, 0}, // queries of 0 s and 4 s come after it
		{9 * time.Second, false, 0},
		{9*time.Second + 1, true, 0}, // sees that the first one ends at 10 s
		{10 * time.Second, false, 0},
		{10*time.Second + 1, true, 1},
		{14 * time.Second, false, 0},
		{15 * time.Second, true, 1},
		{23 * time.Second, false, 0},
		{25 * time.Second, true, 0}, // nothing is there
	} {
		looked, removed := clean(step.at)
		require.Equal(t, step.looked, looked, step.at)
		require.Equal(t, step.removed, removed, step.at)
		if step.at == 0 {
			ask(1, 0)
			ask(2, 4*time.Second)
		}
	}
	back := uint64(begin - 10*time.Minute)
	require.NoError(t, k.SetClock(back, 0))
	require.NoError(t, k.CleanUp(back))
	require.Equal(t, back+uint64(9*time.Second), expiry(t, k), "a look, because the clock was set back")
}

// expiry returns when a query can time out next, as the program says.
func expiry(t *testing.T, k *Programs) uint64 {
	var next expiries
	require.NoError(t, k.Variables[bpf.MonitorVarNextExpiry].Get(&next))
	return next[bpf.MonitorExpiringEXPIRING_QUERIES]
}
