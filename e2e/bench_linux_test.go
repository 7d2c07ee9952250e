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
	require.NoError(t, report.Write(t.TempDir(), *r))
	return r
}

// A bench counts objects. No duration is checked.
func TestBench(t *testing.T) {
	const subscribers = 2
	r := measure(t, bench.RunConfig{
		Systems: system.Sluice(cli.Version()),
		Kinds: []string{result.KindCPU, result.KindDelay, result.KindMemory, result.KindSyscalls,
			result.KindBystander},
		Subscribers: []int{subscribers}, Repetitions: 1, Duration: time.Second, Brief: true,
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
		require.Equal(t, []string{"server_ingress"}, programs, "without client_egress, which runs in its time")
	} else {
		require.Empty(t, programs)
	}
}
