package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/bench/procfs"
	"sluice/internal/bench/result"
	"sluice/internal/bench/trial"
)

// upTo returns 1, 2, … n.
func upTo(n int) (v []float64) {
	for i := range n {
		v = append(v, float64(i+1))
	}
	return v
}

func TestSummarize(t *testing.T) {
	run := func(cpu float64, delays []float64, unusable string, notes ...string) outcome {
		o := newOutcome()
		o.Metrics["cpu.system"], o.Unusable, o.Notes = cpu, unusable, notes
		o.Breakdowns["cpu"] = map[string]float64{"relay": cpu / 2}
		o.addValues("first", delays)
		return *o
	}
	s := summarize("a", []outcome{run(1, upTo(60), ""), run(100, upTo(10), "busy", "noisy"),
		run(3, upTo(60), "", "noisy")})
	require.Equal(t, 2, s.Runs)
	require.Empty(t, s.Unusable)
	require.Equal(t, []string{"noisy"}, s.Notes)
	require.Equal(t, result.Statistic{Median: 2, Min: 1, Max: 3}, s.Metrics["cpu.system"])
	require.Equal(t, result.Statistic{Median: 1, Min: .5, Max: 1.5}, s.Breakdowns["cpu"]["relay"])
	require.Equal(t, 120, s.Distributions["first"].Count)
	require.Equal(t, result.Statistic{Median: 30, Min: 30, Max: 30}, s.Metrics["first.p50"])
	require.Equal(t, result.Statistic{Median: 60, Min: 60, Max: 60}, s.Metrics["first.p99"],
		"no run alone has enough values for this, but all have")
	require.NotContains(t, s.Metrics, "first.p99.9")

	s = summarize("a", []outcome{run(1, nil, "first reason"), run(1, nil, "second reason")})
	require.Equal(t, result.Summary{System: "a", Unusable: "second reason"}, s)
	require.Equal(t, result.Summary{System: "a"}, summarize("a", nil))
}

// usageOf is a period of 10 s on two cores with a little of everything.
func usageOf(change func(*trial.Usage)) *trial.Usage {
	u := &trial.Usage{
		Period: 10 * time.Second, Cores: 2, Busy: 4 * time.Second, Others: time.Second, Idle: .05,
		Relay:       procfs.ProcessTimes{User: 600 * time.Millisecond, System: 400 * time.Millisecond},
		Publisher:   procfs.ProcessTimes{User: 500 * time.Millisecond},
		Subscribers: procfs.ProcessTimes{User: 700 * time.Millisecond},
		EBPF:        200 * time.Millisecond, Packets: 10_000, Sessions: 10, KernelPackets: 9000, UserPackets: 1000,
		LateP99: time.Millisecond, FrameInterval: 40 * time.Millisecond,
	}
	if change != nil {
		change(u)
	}
	return u
}

func TestUsage(t *testing.T) {
	o := newOutcome()
	o.addUsage(usageOf(nil))
	o.addCPU(usageOf(nil))
	require.Empty(t, o.Notes)
	for name, want := range map[string]float64{
		"cpu.system": 25, "cpu.relay": 12, "cpu.relay.user": 6, "cpu.ebpf": 2, "cpu.publisher": 5,
		"cpu.subscribers": 7, "cpu.subscriber": 1.2,
		"cpu.packet": 250, "cpu.packet.relay": 120, "busy": 20, "kernel": 90, "others": 10, "generator": 12,
		"packets": 10_000, "late": 1,
	} {
		require.InDelta(t, want, o.Metrics[name], 1e-9, name)
		require.Contains(t, quantities, name)
	}
	var sum float64
	for _, v := range o.Breakdowns["cpu"] {
		sum += v
	}
	require.InDelta(t, o.Metrics["cpu.system"], sum, 1e-9, "the parts are the whole")

	o = newOutcome()
	o.addCPU(usageOf(func(u *trial.Usage) { u.Idle = -60 }))
	require.NotContains(t, o.Metrics, "cpu.system", "more than the machine was busy")

	o = newOutcome()
	hidden := usageOf(func(u *trial.Usage) { u.Others, u.KernelPackets, u.UserPackets = 4*time.Second, 0, 0 })
	o.addUsage(hidden)
	o.addCPU(hidden)
	for _, name := range []string{"cpu.system", "cpu.packet", "kernel"} {
		require.NotContains(t, o.Metrics, name)
	}
	require.Empty(t, o.of(result.KindDelay).Notes)
	require.Equal(t, []string{"unrelated processes hide what the whole system used"}, o.of(result.KindCPU).Notes)
	require.Equal(t, "unrelated processes used up to 40% of a core", summarize("sluice", []outcome{*o}).Noise())
	require.Empty(t, result.Summary{}.Noise())
}
