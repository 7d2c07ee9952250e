package procfs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBusy(t *testing.T) {
	// 2 cores for 1 s, one of them idle, half a second given to others.
	busy := CPUTimes{Idle: time.Second, Steal: 500 * time.Millisecond}.Busy(time.Second, 2)
	require.Equal(t, 500*time.Millisecond, busy)
}

func TestUsedBetween(t *testing.T) {
	state := func(own, children time.Duration) ProcessState { return ProcessState{own, children} }
	const s = time.Second
	a := map[int]ProcessState{1: state(s, 5*s), 2: state(10*s, 0), 3: state(20*s, 0), 4: state(40*s, s)}
	for name, c := range map[string]struct {
		b    map[int]ProcessState
		want time.Duration
	}{
		"nothing happens": {a, 0},
		"some run": {map[int]ProcessState{1: a[1], 2: state(11*s, 0), 3: a[3],
			4: state(42*s, s)}, 3 * s},
		"one begins": {map[int]ProcessState{1: a[1], 2: a[2], 3: a[3], 4: a[4],
			5: state(2*s, s)}, 3 * s},
		"one begins and ends": {map[int]ProcessState{1: a[1], 2: a[2], 3: a[3], 4: state(40*s, 3*s)},
			2 * s},
		"one ends":                      {map[int]ProcessState{1: a[1], 2: a[2], 3: state(20*s, 44*s)}, 3 * s},
		"one ends with its child":       {map[int]ProcessState{1: a[1], 2: state(10*s, 64*s)}, 3 * s},
		"one ends and no process waits": {map[int]ProcessState{1: a[1], 2: a[2], 3: a[3]}, 0},
		"one without a parent ends":     {map[int]ProcessState{1: state(s, 48*s), 2: state(10*s, 20*s)}, 2 * s},
		"all but the first end":         {map[int]ProcessState{1: state(s, 78*s)}, 2 * s},
	} {
		require.Equal(t, c.want, UsedBetween(a, c.b), name)
	}
}

func TestParseDescriptor(t *testing.T) {
	const array = "pos:\t0\nflags:\t02000002\nmap_type:\t2\nkey_size:\t4\nvalue_size:\t64\n" +
		"max_entries:\t1024\nmemlock:\t69632\nmap_id:\t77\nfrozen:\t0\n"
	id, memory, ok := parseDescriptor(array).bpfMap()
	require.True(t, ok)
	require.Equal(t, "77", id)
	require.EqualValues(t, 69632, memory)
	for _, other := range []string{"", "pos:\t0\nflags:\t02\n", "prog_type:\t3\nmemlock:\t4096\nprog_id:\t5\n",
		"map_id:\t7\nmemlock:\tx\n"} {
		_, _, ok := parseDescriptor(other).bpfMap()
		require.False(t, ok, "%q", other)
	}
}

func TestParsePrometheus(t *testing.T) {
	const text = `# HELP sluice_media_packets_total QUIC packets
# TYPE sluice_media_packets_total counter
sluice_media_packets_total 12
sluice_fastpath_media_packets_total 1.5e+06
sluice_fastpath_total{reason="forwarded"} 3
broken
broken x
`
	require.Equal(t, map[string]float64{
		"sluice_media_packets_total": 12, "sluice_fastpath_media_packets_total": 1.5e6,
	}, ParsePrometheus(text))
}
