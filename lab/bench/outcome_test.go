package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/procfs"
	"sluice/lab/bench/result"
	"sluice/lab/bench/trial"
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
		Relay: trial.Share{
			Process:     procfs.ProcessTimes{User: 600 * time.Millisecond, System: 400 * time.Millisecond},
			Interrupted: 150 * time.Millisecond, Devices: 450 * time.Millisecond,
		},
		Publisher:   trial.Share{Process: procfs.ProcessTimes{User: 500 * time.Millisecond}},
		Subscribers: trial.Share{Process: procfs.ProcessTimes{User: 700 * time.Millisecond}},
		EBPF:        200 * time.Millisecond, Recorder: 100 * time.Millisecond, Lab: 100 * time.Millisecond,
		Delivered: 2000, Packets: 10_000, Sessions: 10,
		KernelPackets: 9000, UserPackets: 1000, LateP99: time.Millisecond, FrameInterval: 40 * time.Millisecond,
	}
	if change != nil {
		change(u)
	}
	return u
}

// The relay uses 25 % of a core and then 12.5 %, all of it in a program. A second one runs in the time of the first.
func TestAddTimeline(t *testing.T) {
	part := func(begin, used time.Duration) trial.Usage {
		share := func(n time.Duration) trial.Share { return trial.Share{Process: procfs.ProcessTimes{User: n * used}} }
		return trial.Usage{
			Begin: time.Minute + begin, Period: 4 * time.Second, EBPF: used,
			Relay: share(1), Publisher: share(2), Subscribers: share(3),
		}
	}
	m := &trial.Measurement{
		Usage:    *usageOf(nil),
		Timeline: []trial.Usage{part(0, time.Second), part(4*time.Second, 500*time.Millisecond)},
	}
	m.Begin, m.Programs = time.Minute, []trial.ProgramUse{
		{Name: "ingress", Runtime: 1500 * time.Millisecond, Runs: 8},
		{Name: "egress", Runtime: 750 * time.Millisecond, Runs: 8, Within: true},
	}
	o := newOutcome()
	o.addTimeline(m)
	for name, want := range map[string][]float64{
		"host.relay": {25, 12.5}, "cpu.ebpf": {25, 12.5}, "host.publisher": {50, 25}, "host.subscribers": {75, 37.5},
	} {
		require.Equal(t, result.Series{Time: []float64{2, 6}, Value: want}, o.Series[name], name)
		require.True(t, hasMetric(result.KindCPU, name), name)
	}
	require.Equal(t, map[string]float64{"ingress": 15}, o.Breakdowns["cpu.ebpf"], "1.5 s of 10")
	require.Equal(t, 1.6, o.Metrics["cpu.ebpf.runs"])
	o = newOutcome()
	o.addTimeline(&trial.Measurement{Usage: *usageOf(nil)})
	require.Empty(t, o.Breakdowns, "another relay has no programs")
}

func TestUsage(t *testing.T) {
	o := newOutcome()
	o.addUsage(usageOf(nil))
	o.addCPU(usageOf(nil))
	require.Empty(t, o.Notes)
	for name, want := range map[string]float64{
		"cpu.system": 24, "cpu.relay": 12, "cpu.relay.user": 6, "cpu.relay.system": 4, "cpu.ebpf": 2,
		"cpu.relay.softirq": 4.5, "cpu.lab": 1, "cpu.lab.relay": 1, "cpu.publisher": 5, "cpu.subscribers": 7,
		"cpu.frame": 1200, "cpu.frame.relay": 600, "frames": 200, "frames.packets": 5,
		"cpu.packet": 240, "cpu.packet.relay": 120, "busy": 20, "kernel": 90, "others": 10, "generator": 12,
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
	for _, name := range []string{"cpu.system", "cpu.frame", "kernel"} {
		require.NotContains(t, o.Metrics, name)
	}
	require.Empty(t, o.of(result.KindDelay).Notes)
	require.Equal(t, []string{"unrelated processes hide what the whole system used"}, o.of(result.KindCPU).Notes)
	require.Equal(t, "unrelated processes used up to 40% of a core", summarize("sluice", []outcome{*o}).Noise())
	require.Empty(t, result.Summary{}.Noise())
}

// Others have used up the machine, which memory does not depend on.
func TestExhausted(t *testing.T) {
	o := newOutcome()
	o.exhausted = "the load generators were the bottleneck"
	require.Equal(t, o.exhausted, o.of(result.KindDelay).Unusable)
	require.Empty(t, o.of(result.KindMemory).Unusable)
}

func TestAddProfile(t *testing.T) {
	o := newOutcome()
	o.addProfile(map[string]time.Duration{
		"syscall": 3 * time.Second, "futex": 980 * time.Millisecond,
		"a": 15 * time.Millisecond, "b": 5 * time.Millisecond,
	}, usageOf(nil)) // 10 s
	require.Equal(t, map[string]float64{"syscall": 75, "futex": 24.5, "others": .5}, o.Breakdowns["profile"])
	require.Equal(t, 12., o.Metrics["profile.cpu"])
	require.Empty(t, o.of(result.KindSyscalls).Breakdowns)
}
