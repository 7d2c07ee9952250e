package forwarding

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/internal/thorough"
	"sluice/lab/bench/result"
	"sluice/rtt/flood"
)

// buildMonitor builds the program sluice-rtt.
func buildMonitor(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "sluice-rtt")
	out, err := exec.Command("go", "build", "-o", path, "sluice/cmd/sluice-rtt").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// TestMeasure runs Sluice in two modes, as fast as the CPU can and at a rate. It reports each RTT once.
func TestMeasure(t *testing.T) {
	thorough.Only(t)
	thorough.Root(t)
	const rate = 1_000_000_000
	r, err := Measure(t.Context(), Config{
		Monitors: []Monitor{Sluice(buildMonitor(t), "test"), {Name: "no modes", Program: "false"}},
		Flows:    []int{10}, Modes: []Mode{Every, Aggregated}, Rate: rate, Repetitions: 1,
		Duration: 10 * time.Millisecond, Settle: time.Millisecond,
	})
	require.NoError(t, err)
	require.NoError(t, r.Validate())
	require.Len(t, r.Scenarios, 4)
	for _, s := range r.Scenarios {
		require.Len(t, s.Summaries, 2, "%s: sluice, and no monitor", s.Name)
		got := s.Summary("sluice")
		require.Empty(t, got.Unusable, s.Name)
		require.NotZero(t, got.Metrics["anonymous"].Median)
		require.NotZero(t, got.Metrics["rtts"].Median, s.Name)
		require.Equal(t, result.Statistic{}, got.Metrics["missed"], "%s: RTTs are missed", s.Name)
		alone := s.Summary(None)
		require.Empty(t, alone.Unusable)
		require.NotContains(t, alone.Metrics, "rtts")
		if s.Params.Rate == 0 {
			require.NotZero(t, alone.Metrics["rate"].Median)
		} else {
			require.NotZero(t, alone.Metrics["forwarder"].Median)
		}
	}
}

// TestFailingMonitor has a monitor that ends with an error before it watches.
func TestFailingMonitor(t *testing.T) {
	thorough.Root(t)
	r, err := Measure(t.Context(), Config{
		Monitors: []Monitor{{Name: "broken", Program: "sh", Arguments: map[Mode][]string{
			Every: {"-c", "echo no such option >&2; exit 3"},
		}}},
		Flows: []int{1}, Modes: []Mode{Every}, Repetitions: 1, Duration: 10 * time.Millisecond,
	})
	require.ErrorContains(t, err, "broken: no run was usable")
	require.ErrorContains(t, err, "broken: exit status 3\n  no such option")
	require.Empty(t, r.Scenarios[0].Summary(None).Unusable)
}

// TestOneCPU has a monitor that names its CPUs: it has the CPU that forwards.
func TestOneCPU(t *testing.T) {
	thorough.Root(t)
	var all unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	_, last := split(all)
	cpu := 0
	for !last.IsSet(cpu) {
		cpu++
	}
	r, err := Measure(t.Context(), Config{
		Monitors: []Monitor{{Name: "broken", Program: "sh", Arguments: map[Mode][]string{
			Every: {"-c", "grep Cpus_allowed_list /proc/self/status >&2; exit 3"},
		}}},
		Flows: []int{1}, Modes: []Mode{Every}, OneCPU: true, Repetitions: 1, Duration: 10 * time.Millisecond,
	})
	require.ErrorContains(t, err, fmt.Sprintf("Cpus_allowed_list:\t%d", cpu))
	require.Equal(t, "forwarding/1/every RTT, one CPU", r.Scenarios[0].Name)
}

// TestSummaries has a monitor that ends with an error in some runs, one that does so in all, and one that does not
// exist.
func TestSummaries(t *testing.T) {
	s := result.Scenario{Runs: []result.Run{
		{System: "a", Unusable: "broken"}, {System: "a", Metrics: map[string]float64{"rate": 2}},
		{System: "b", Unusable: "broken"},
	}}
	summarize(&s, []string{"a", "b", "c"})
	require.Equal(t, []result.Summary{
		{System: "a", Runs: 1, Metrics: map[string]result.Statistic{"rate": {Median: 2, Min: 2, Max: 2}}},
		{System: "b", Unusable: "broken"},
	}, s.Summaries)
	require.EqualError(t, requireRuns(&result.Report{Scenarios: []result.Scenario{s}}, []string{"a", "b", "c"}),
		"b: no run was usable: broken")
	missing := Config{Monitors: []Monitor{{Name: "missing", Program: filepath.Join(t.TempDir(), "none")}}}
	_, err := Measure(t.Context(), missing)
	require.ErrorContains(t, err, "monitor missing")
}

func TestCountRTTs(t *testing.T) {
	for out, want := range map[string]int{
		"1.5 0.01 0.01 a+b\n2.5 0.02 0.01 a+b\n":                                          2,
		`{"bins":250}` + "\n" + `{"count_rtt":3,"x":1}` + "\n" + `{"count_rtt":4}` + "\n": 7,
		"1.5 0.01 0.01 a+b\n2.5 0.0":                                                      1,
		"":                                                                                0,
	} {
		n, err := countRTTs(strings.NewReader(out))
		require.NoError(t, err)
		require.Equal(t, want, n, out)
	}
	_, err := countRTTs(strings.NewReader(strings.Repeat("x", maxLine+1)))
	require.ErrorIs(t, err, bufio.ErrBufferFull)
}

func TestExpectedRTTs(t *testing.T) {
	require.Equal(t, 10, expectedRTTs(10, 2*flood.Tick))
	require.Equal(t, flood.Tick, expectedRTTs(flood.Tick, 2*flood.Tick))
	require.Equal(t, 3*flood.Tick, expectedRTTs(2*flood.Tick, 5*flood.Tick))
}
