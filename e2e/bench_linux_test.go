package e2e

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli"
	"sluice/internal/thorough"
	"sluice/lab"
	"sluice/lab/bench"
	"sluice/lab/bench/report"
	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
)

// measure runs a bench, for make check. Where the machine cannot do it, the test is skipped, as by labtest.New.
func measure(t *testing.T, cfg bench.RunConfig) *result.Report {
	t.Helper()
	thorough.Only(t)
	var err error
	cfg.Programs.Generator, err = exec.LookPath("sluice-lab")
	require.NoError(t, err)
	cfg.Programs.Sluice, err = exec.LookPath("sluice")
	require.NoError(t, err)
	cfg.Progress = func(line string) { t.Log(line) }
	r, err := bench.Measure(t.Context(), cfg)
	if missing, ok := errors.AsType[*lab.MissingError](err); ok && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip(missing)
	}
	require.NoError(t, err)
	require.NoError(t, report.Write(t.TempDir(), *r, true))
	return r
}

// A bench counts objects. No duration is checked.
func TestBench(t *testing.T) {
	const subscribers = 2
	r := measure(t, bench.RunConfig{
		Systems: system.Sluice(cli.Version()),
		Kinds: []string{result.KindCPU, result.KindDelay, result.KindMemory, result.KindSyscalls,
			result.KindBystander},
		Subscribers: []int{subscribers}, Repetitions: 1, Duration: time.Second, Warmup: 500 * time.Millisecond,
		Brief: true,
	})
	require.Equal(t, result.Format, r.Format)
	require.NotEmpty(t, r.Machine.Kernel)
	require.Positive(t, r.Machine.Memory)
	require.Equal(t, "off", r.Machine.Offloads["generic-segmentation"])
	require.Len(t, r.Systems, 2, "those that took part")
	require.Equal(t, "sluice "+cli.Version(), r.Systems[0].Version)
	var kinds []string
	for _, s := range r.Scenarios {
		kinds = append(kinds, s.Name)
		require.Len(t, s.Runs, 2)
		require.Len(t, s.Summaries, 2)
		for _, run := range s.Runs {
			checkRun(t, s, run)
		}
	}
	require.Equal(t, []string{
		"delay/2/idle", "cpu/2/idle", "memory/2/idle", "delay/2/hog", "syscalls/2", "bystander/2",
	}, kinds)
}

func checkRun(t *testing.T, s result.Scenario, run result.Run) {
	t.Helper()
	require.NotContains(t, run.Unusable, "the run failed")
	require.Zero(t, run.Metrics["lost"], "%s, %s", s.Name, run.System)
	require.Zero(t, run.Metrics["corrupt"])
	require.Positive(t, run.Metrics["packets"])
	if run.System == system.FastPath {
		require.Positive(t, run.Metrics["kernel"], "the fast path is used")
	} else {
		require.Zero(t, run.Metrics["kernel"])
	}
	switch s.Kind {
	case result.KindDelay:
		require.Positive(t, run.Distributions["first"].Count)
		require.Positive(t, run.Distributions["last"].Count)
		require.NotEmpty(t, run.Series["first"].Value)
	case result.KindCPU:
		require.Contains(t, run.Breakdowns["cpu"], "relay, eBPF")
		require.Positive(t, run.Metrics["cpu.frame.relay"])
		require.Positive(t, run.Metrics["cpu.relay.softirq"], "packets have come to the relay's devices")
		require.Positive(t, run.Metrics["cpu.lab.relay"])
		checkTimeline(t, run)
	case result.KindMemory:
		require.Greater(t, run.Metrics["memory.resident"], 5.)
		require.Positive(t, run.Metrics["memory.proportional"])
		require.LessOrEqual(t, run.Metrics["memory.proportional"], run.Metrics["memory.resident"])
		require.GreaterOrEqual(t, run.Metrics["memory.peak"], run.Metrics["memory.resident"])
		require.Equal(t, run.System == system.FastPath, run.Metrics["memory.maps"] > 0)
	case result.KindBystander:
		require.Positive(t, run.Distributions["ping"].Count)
		require.Positive(t, run.Distributions["ping.idle"].Count)
		require.Contains(t, run.Metrics, "ping.lost") // a busy machine may answer late
	case result.KindSyscalls:
		require.Positive(t, run.Breakdowns["syscalls"]["recvmmsg"]+run.Breakdowns["syscalls"]["recvmsg"])
		require.Positive(t, run.Breakdowns["syscalls"]["futex"])
	}
}

// checkTimeline checks the use of CPU time over time.
func checkTimeline(t *testing.T, run result.Run) {
	t.Helper()
	for _, host := range []string{"host.publisher", "host.relay", "host.subscribers"} {
		require.NotEmpty(t, run.Series[host].Value, host)
	}
	programs := slices.Sorted(maps.Keys(run.Breakdowns["cpu.ebpf"]))
	if run.System == system.FastPath {
		require.Equal(t, []string{"client_egress", "server_ingress"}, programs, "without those of the bench itself")
	} else {
		require.Empty(t, programs)
	}
}

// Each subscriber but one gets a bottleneck of its own. A relay that does not run has no numbers.
func TestBenchCongestion(t *testing.T) {
	r := measure(t, bench.RunConfig{
		Systems: []system.Spec{system.Sluice(cli.Version())[0], {Name: "broken", Command: "false {addr}"}},
		Kinds:   []string{result.KindCongestion}, Brief: true,
		Repetitions: 1, Duration: time.Second, Warmup: time.Second,
	})
	const rate = 2.096 // of the video and the audio beside it, Mbit/s
	widths := make(map[string][]float64)
	for _, s := range r.Scenarios {
		good, broken := s.Runs[0], s.Runs[1]
		require.NotContains(t, good.Unusable, "the run failed")
		require.Len(t, good.Series["neighbour.goodput"].Value, 12)
		require.Positive(t, good.Distributions["age"].Count, s.Name)
		require.Len(t, good.Series["goodput"].Value, 12)
		require.Zero(t, good.Metrics["corrupt"])
		require.Contains(t, broken.Unusable, "broken: has ended")
		require.Empty(t, broken.Metrics)
		require.Zero(t, s.Summaries[1].Runs)
		widths[s.Name] = good.Series["link"].Value
		require.Equal(t, s.Name == "congestion/bulk", good.Metrics["bulk"] > 0, s.Name)
	}
	require.Len(t, widths, 6)
	require.InDeltaSlice(t, []float64{.6 * rate, .6 * rate}, widths["congestion/constant"], 1e-9)
	require.InDeltaSlice(t, []float64{1.5 * rate, 1.5 * rate, .5 * rate, .5 * rate, 1.5 * rate, 1.5 * rate},
		widths["congestion/step"], 1e-9)
}

// Two relays are a chain: what is published at the first arrives at the second. A relay that cannot be further down has
// a reason instead of numbers.
func TestBenchChain(t *testing.T) {
	alone := system.Sluice(cli.Version())[1]
	alone.Name, alone.Further, alone.Alone = "alone", "", "it never dials"
	r := measure(t, bench.RunConfig{
		Systems: []system.Spec{system.Sluice(cli.Version())[0], alone}, Kinds: []string{result.KindChain}, Brief: true,
		Repetitions: 1, Duration: time.Second, Warmup: time.Second,
	})
	require.Len(t, r.Scenarios, 2)
	for i, relays := range []int{1, 3} {
		s := r.Scenarios[i]
		require.Equal(t, relays, s.Params.Relays)
		checkRun(t, s, s.Runs[0])
		require.Positive(t, s.Runs[0].Distributions["first"].Count)
		require.Equal(t, i > 0, s.Runs[0].Distributions["hop"].Count > 0)
	}
	require.Positive(t, r.Scenarios[0].Runs[1].Metrics["packets"], "one relay is no chain")
	require.Equal(t, "it never dials", r.Scenarios[1].Summaries[1].Unusable)
}

// RTSP clients get whole frames from a relay.
func TestBenchRTSP(t *testing.T) {
	const players = 60 // more than there are with a hog
	r := measure(t, bench.RunConfig{
		Systems: system.Sluice(cli.Version())[:1], Kinds: []string{result.KindRTSP}, MaxCapacity: 1, Brief: true,
		Subscribers: []int{players}, Repetitions: 1, Duration: time.Second, Warmup: 500 * time.Millisecond,
	})
	require.Len(t, r.Scenarios, 2)
	fanout, capacity := r.Scenarios[0], r.Scenarios[1]
	require.Equal(t, "rtsp/60/idle", fanout.Name)
	run := fanout.Runs[0]
	require.NotContains(t, run.Unusable, "the run failed")
	require.Zero(t, run.Metrics["corrupt"])
	require.Positive(t, run.Metrics["packets"])
	require.Positive(t, run.Distributions["first"].Count)
	require.Positive(t, run.Metrics["cpu.frame.relay"])
	require.Contains(t, run.Metrics, "rtp.lost")
	require.Equal(t, "rtsp/capacity/1", capacity.Name)
	require.NotContains(t, capacity.Runs[0].Unusable, "the run failed")
}
