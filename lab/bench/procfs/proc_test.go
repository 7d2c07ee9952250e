package procfs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	c, err := parseStat("cpu  1000 20 300 40000 500 6 70 8 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 5\n")
	require.NoError(t, err)
	require.Equal(t, CPUTimes{Idle: 405 * time.Second, Steal: 80 * time.Millisecond}, c)
	later := CPUTimes{Idle: 406 * time.Second, Steal: 580 * time.Millisecond}
	// 2 cores for 1 s, one of them idle, half a second given to others.
	require.Equal(t, 500*time.Millisecond, later.Minus(c).Busy(time.Second, 2))
	for _, bad := range []string{"", "cpu 1 2 3", "cpu  1 2 3 4 5 6 x 8 0 0", "intr 1 2 3 4 5 6 7 8 9"} {
		_, err := parseStat(bad)
		require.ErrorContains(t, err, "/proc/stat", "%q", bad)
	}
}

func TestParseProcessStat(t *testing.T) {
	const text = "42 (a (strange) name) S 1 42 42 0 -1 4194560 1 2 3 4 150 25 7 9 " +
		"20 0 8 0 1000 123456 789 18446744073709551615"
	p, err := parseProcessStat(text)
	require.NoError(t, err)
	require.Equal(t, ProcessState{parent: 1, own: ProcessTimes{1500 * time.Millisecond, 250 * time.Millisecond},
		children: 160 * time.Millisecond}, p)
	p, err = parseProcessStat("3 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 0 5 0 0 20 0 1 0 10 " +
		"0 0 18446744073709551615")
	require.NoError(t, err)
	require.True(t, p.kernel)
	for _, bad := range []string{"", "42 (name) S 1", "42 name S 1 42 42 0 -1 1 1 2 3 4 150 25 7 9 20 0 8 0 1 2 3",
		"42 (n) S 1 42 42 0 -1 1 1 2 3 4 -1 25 7 9 20 0 8 0 1 2 3",
		"42 (n) S x 42 42 0 -1 1 1 2 3 4 1 25 7 9 20 0 8 0 1 2 3"} {
		_, err := parseProcessStat(bad)
		require.ErrorContains(t, err, "/proc/PID/stat", "%q", bad)
	}
}

func TestUsedBetween(t *testing.T) {
	state := func(parent int, own, children time.Duration) ProcessState {
		return ProcessState{parent: parent, own: ProcessTimes{User: own}, children: children}
	}
	const s = time.Second
	a := map[int]ProcessState{1: state(0, s, 5*s), 2: state(1, 10*s, 0), 3: state(2, 20*s, 0), 4: state(3, 40*s, s)}
	for name, c := range map[string]struct {
		b    map[int]ProcessState
		want time.Duration
	}{
		"nothing happens": {a, 0},
		"some run": {map[int]ProcessState{1: a[1], 2: state(1, 11*s, 0), 3: a[3],
			4: state(3, 42*s, s)}, 3 * s},
		"one begins": {map[int]ProcessState{1: a[1], 2: a[2], 3: a[3], 4: a[4],
			5: state(4, 2*s, s)}, 3 * s},
		"one begins and ends": {map[int]ProcessState{1: a[1], 2: a[2], 3: a[3], 4: state(3, 40*s, 3*s)},
			2 * s},
		"one ends":                      {map[int]ProcessState{1: a[1], 2: a[2], 3: state(2, 20*s, 44*s)}, 3 * s},
		"one ends with its child":       {map[int]ProcessState{1: a[1], 2: state(1, 10*s, 64*s)}, 3 * s},
		"one ends and no process waits": {map[int]ProcessState{1: a[1], 2: a[2], 3: a[3]}, 0},
		"one without a parent ends":     {map[int]ProcessState{1: state(0, s, 48*s), 2: state(1, 10*s, 20*s)}, 2 * s},
		"all but the first end":         {map[int]ProcessState{1: state(0, s, 78*s)}, 2 * s},
	} {
		require.Equal(t, c.want, UsedBetween(a, c.b), name)
	}
}

func TestParseStatus(t *testing.T) {
	m, err := parseStatus("Name:\tsluice\nVmPeak:\t 2000 kB\nVmHWM:\t   65536 kB\nVmRSS:\t   32768 kB\n" +
		"RssAnon:\t  16384 kB\n")
	require.NoError(t, err)
	require.Equal(t, Memory{Resident: 32 << 20, Peak: 64 << 20, Anonymous: 16 << 20}, m)
	_, err = parseStatus("Name:\tkthreadd\n")
	require.Error(t, err)
}

func TestParseRollup(t *testing.T) {
	n, err := parseRollup("00400000-7fff00000000 ---p 00000000 00:00 0   [rollup]\nRss:  9000 kB\nPss:  8192 kB\n" +
		"Pss_Dirty:  1 kB\n")
	require.NoError(t, err)
	require.EqualValues(t, 8<<20, n)
	_, err = parseRollup("Rss:  9000 kB\n")
	require.ErrorContains(t, err, "smaps_rollup")
}

func TestParseDatagrams(t *testing.T) {
	a, err := parseDatagrams("Ip6InReceives      \t700\nUdp6InDatagrams       \t692\nUdp6OutDatagrams      \t773\n")
	require.NoError(t, err)
	require.Equal(t, Activity{Received: 692, Sent: 773}, a)
	for _, bad := range []string{"", "Udp6InDatagrams 1\n", "Udp6InDatagrams 1\nUdp6OutDatagrams x\n"} {
		_, err := parseDatagrams(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestParseMapInfo(t *testing.T) {
	const array = "pos:\t0\nflags:\t02000002\nmap_type:\t2\nkey_size:\t4\nvalue_size:\t64\n" +
		"max_entries:\t1024\nmemlock:\t69632\nmap_id:\t77\nfrozen:\t0\n"
	id, memory, ok := parseMapInfo(array)
	require.True(t, ok)
	require.Equal(t, "77", id)
	require.EqualValues(t, 69632, memory)
	for _, other := range []string{"", "pos:\t0\nflags:\t02\n", "prog_type:\t3\nmemlock:\t4096\nprog_id:\t5\n",
		"map_id:\t7\nmemlock:\tx\n"} {
		_, _, ok := parseMapInfo(other)
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

func TestParseMachine(t *testing.T) {
	model, virtual := parseCPU("processor\t: 0\nmodel name\t: AMD EPYC 9355\nflags\t\t: fpu hypervisor avx2\n\n" +
		"processor\t: 1\nmodel name\t: other\n")
	require.Equal(t, "AMD EPYC 9355", model)
	require.True(t, virtual)
	model, virtual = parseCPU("processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n")
	require.Equal(t, "implementer 0x41 part 0xd0c", model)
	require.False(t, virtual)

	require.Equal(t, "", hypervisor(false, "Dell Inc.", "PowerEdge"))
	require.Equal(t, "QEMU Standard PC", hypervisor(true, "QEMU", "Standard PC"))
	require.Equal(t, "unknown", hypervisor(true, "", ""))

	require.Equal(t, 1.25, parseLoad("1.25 0.80 0.33 2/345 6789"))
	require.Equal(t, 0., parseLoad(""))
}
