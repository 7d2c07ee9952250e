package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/load"
	"sluice/lab/bench/pathprofile"
	"sluice/lab/bench/playback"
	"sluice/lab/bench/procfs"
	"sluice/lab/bench/result"
	"sluice/lab/bench/syscalls"
	"sluice/lab/bench/system"
	"sluice/lab/bench/trial"
	"sluice/lab/measure"
)

func runnerOf(systems []system.Spec, cfg RunConfig) *runner {
	cfg.Systems = systems
	return &runner{RunConfig: cfg.withDefaults(), report: new(result.Report), peers: make(map[string]string)}
}

// The numbers that docs/bench.md and the Makefile name: an estimate from the configuration, which nothing measures.
func TestEstimate(t *testing.T) {
	estimate := func(systems []system.Spec, cfg RunConfig) (int, time.Duration) {
		r := runnerOf(systems, cfg)
		return r.estimate(r.plans())
	}
	ours := system.Sluice("1")
	runs, alone := estimate(ours, RunConfig{})
	// 1 to 200 subscribers, up to 50 with a hog, system calls for 1 to 200, capacity, a bystander, chains of 1
	// to 4 relays with and without a hog, a conference; the bottlenecks, in which two more variants take part; and
	// those with a ladder, in which two do.
	require.Equal(t, 3*(2*(4+3+4+1+1+8+1)+4+2), runs)
	require.Less(t, alone, 50*time.Minute, alone)
	beside := append(ours, system.Spec{Name: "moq-relay-ietf"}, system.Spec{Name: "moq-relay"})
	_, withPeers := estimate(beside, RunConfig{})
	require.Less(t, withPeers, 95*time.Minute, withPeers)
	runs, congestion := estimate(beside, RunConfig{Kinds: []string{result.KindCongestion}})
	require.Equal(t, 3*(6+4), runs)
	require.Less(t, congestion, 25*time.Minute, congestion)
	runs, rtsp := estimate(append(ours, system.Spec{Name: "mediamtx", RTSP: "{rtsp}"}),
		RunConfig{Kinds: []string{result.KindRTSP}, Repetitions: 1})
	require.Equal(t, 3*(4+3+1), runs)
	require.Less(t, rtsp, 6*time.Minute, rtsp)
	_, capacity := estimate(ours, RunConfig{Kinds: []string{result.KindCapacity}})
	require.Positive(t, capacity)
	require.Less(t, capacity, alone)
}

func TestPlans(t *testing.T) {
	names := func(cfg RunConfig) (out []string) {
		for _, p := range runnerOf(system.Sluice("1"), cfg).plans() {
			for _, kind := range p.kinds {
				for _, v := range p.views {
					out = append(out, kind+"/"+v.name)
				}
			}
		}
		return out
	}
	require.Equal(t, []string{
		"delay/1/idle", "cpu/1/idle", "memory/1/idle", "delay/100/idle", "cpu/100/idle", "memory/100/idle",
		"delay/1/hog", // with 100 subscribers, there is none
		"syscalls/1", "syscalls/100", "capacity/400", "congestion/constant", "congestion/step", "congestion/sawtooth",
		"congestion/lte", "congestion/loss", "congestion/bulk",
		"congestion/ladder/constant", "congestion/ladder/step", "congestion/ladder/sawtooth",
		"bystander/100",
		"chain/1/idle", "chain/2/idle", "chain/3/idle", "chain/4/idle",
		"chain/1/hog", "chain/2/hog", "chain/3/hog", "chain/4/hog", "conference/4",
	}, names(RunConfig{Subscribers: []int{1, 100}}))
	require.Equal(t, []string{"chain/1/idle", "chain/3/idle"},
		names(RunConfig{Kinds: []string{result.KindChain}, Brief: true}))
	require.Equal(t, []string{"rtsp/1/idle", "rtsp/60/idle", "rtsp/1/hog", "rtsp/capacity/400"},
		names(RunConfig{Kinds: []string{result.KindRTSP}, Subscribers: []int{1, 60}}))
	clients := RunConfig{Kinds: []string{result.KindClients}}
	clients.Clients = []system.Clients{system.OwnClients, {Name: "moq-pub"}}
	require.Equal(t, []string{"clients/sluice", "clients/moq-pub"}, names(clients))
	require.Equal(t, []string{"memory/1/idle"},
		names(RunConfig{Kinds: []string{result.KindMemory}, Subscribers: []int{1}, Brief: true}))
}

func TestParticipants(t *testing.T) {
	r := runnerOf(system.Sluice("1"), RunConfig{})
	require.Len(t, r.participants(plan{kinds: []string{result.KindDelay}}), 2)
	require.Len(t, r.participants(plan{kinds: []string{result.KindCongestion}}), 4)
	require.Len(t, r.participants(plan{kinds: []string{result.KindRTSP}}), 2)
}

// Systems run in turns; a run that fails is unusable, and the others count.
func TestRunPlan(t *testing.T) {
	r := runnerOf([]system.Spec{{Name: "a", Version: "1"}, {Name: "b"}, {Name: "never"}}, RunConfig{})
	r.Systems[2].Kinds = []string{result.KindCapacity}
	var lines []string
	r.Progress = func(line string) { lines = append(lines, line) }
	n := 0.0
	p := plan{
		kinds: []string{result.KindDelay, result.KindCPU}, title: "one", views: []view{{name: "1/idle", title: "one"}},
		run: func(_ context.Context, spec system.Spec) ([]*outcome, error) {
			if n++; spec.Name == "b" && n == 2 {
				return nil, errProbe
			}
			o := newOutcome()
			o.Metrics["first.p50"], o.Metrics["cpu.system"], o.peer = n, 10*n, spec.Name+" 2"
			return []*outcome{o}, nil
		},
	}
	require.NoError(t, r.runPlan(t.Context(), p))
	require.Equal(t, []string{"    b: the run failed: a probe failed"}, lines)
	require.Len(t, r.report.Scenarios, 2)
	delay, cpu := r.report.Scenarios[0], r.report.Scenarios[1]
	require.Equal(t, "delay/1/idle", delay.Name)
	require.Len(t, delay.Runs, 6)
	var order string
	for _, run := range delay.Runs {
		order += run.System
	}
	require.Equal(t, "ababab", order)
	require.Equal(t, 3, delay.Runs[5].Repetition)
	require.Equal(t, 3, delay.Summary("a").Runs)
	require.Equal(t, result.Statistic{Median: 3, Min: 1, Max: 5}, delay.Summary("a").Metrics["first.p50"])
	require.Equal(t, 2, delay.Summary("b").Runs)
	require.Equal(t, result.Statistic{Median: 50, Min: 40, Max: 60}, cpu.Summary("b").Metrics["cpu.system"])
	require.NotContains(t, cpu.Summary("b").Metrics, "first.p50")

	r.addSystems()
	require.Equal(t, []result.System{{Name: "a", Version: "1"}, {Name: "b", Version: "b 2"}}, r.report.Systems)

	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(errProbe)
	require.ErrorIs(t, r.runPlan(stopped, p), errProbe)
	require.Len(t, r.report.Scenarios, 2)
}

func TestOutcomeOf(t *testing.T) {
	m := &trial.Measurement{
		Usage: *usageOf(nil), Peer: "a relay", Memory: procfs.Memory{
			Resident: 3 << 20, Proportional: 2 << 20, Peak: 4 << 20, Maps: 1 << 19,
		},
		Before:    procfs.Memory{Resident: 3 << 19},
		Published: load.Published{Objects: 100, Failed: 2, Packets: 200},
		Received: [][]load.Received{
			{{Objects: 100, Packets: 200}, {Objects: 98, Corrupt: 1, Packets: 195, Disordered: 3}},
			{{Objects: 100, Packets: 200}},
		},
	}
	m.Sessions = 3
	o := outcomeOf(m)
	for name, want := range map[string]float64{
		"lost": 2, "corrupt": 1, "rtp.lost": 5, "rtp.disordered": 3,
		"memory.resident": 3, "memory.proportional": 2, "memory.peak": 4, "memory.maps": .5, "memory.session": 512,
		"packets": 10_000,
	} {
		require.Equal(t, want, o.Metrics[name], name)
	}
	require.Equal(t, "a relay", o.peer)
	require.Equal(t, []string{"2 objects could not be sent to the relay"}, o.Notes)
	require.Empty(t, o.Unusable)
	m.LateP99 = time.Second
	require.Contains(t, outcomeOf(m).Unusable, "the publisher was the bottleneck")
}

func TestAddPings(t *testing.T) {
	o := newOutcome()
	o.addPings(load.Pinged{Delays: upTo(200), Lost: 1}, load.Pinged{Delays: upTo(10), Lost: 2})
	require.Equal(t, 198., o.Metrics["ping.p99"])
	require.Equal(t, 5., o.Metrics["ping.idle.p50"])
	require.Equal(t, 3., o.Metrics["ping.lost"])
	require.NotEmpty(t, o.of(result.KindBystander).finished().Distributions["ping.idle"].Value)
	require.Empty(t, o.of(result.KindDelay).Metrics)
}

func TestAddSyscalls(t *testing.T) {
	o := newOutcome()
	total := map[string]syscalls.Calls{
		"sendmsg": {Count: 5000, Time: 500 * time.Millisecond}, "futex": {Count: 2500, Time: 9 * time.Second},
	}
	o.addSyscalls(total, usageOf(nil)) // 10 s, 10,000 packets
	require.Equal(t, map[string]float64{"sendmsg": 15_000, "futex": 7500}, o.Breakdowns["syscalls"])
	require.Equal(t, map[string]float64{"sendmsg": 1.5, "futex": 27}, o.Breakdowns["syscalls.time"])
	require.Equal(t, 1.5, o.Metrics["syscalls.busy"])
	require.Equal(t, 22_500., o.Metrics["syscalls.total"])
	require.Equal(t, .75, o.Metrics["syscalls.packet"])
	require.Equal(t, 3.75, o.Metrics["syscalls.frame"])
}

// All paths are those that a replay has. One run shows all of them, and if it fails, each is unusable for its reason.
func TestCongestionPlan(t *testing.T) {
	r := runnerOf([]system.Spec{{Name: "a"}, {Name: "b"}}, RunConfig{Repetitions: 1})
	p := r.congestionPlans()[0]
	require.Len(t, p.views, len(bottlenecks))
	require.Less(t, p.length, 40*time.Second)
	p.run = func(_ context.Context, spec system.Spec) (outcomes []*outcome, err error) {
		if spec.Name == "b" {
			return nil, errProbe
		}
		for i := range bottlenecks {
			o := newOutcome()
			o.Metrics["playable"] = float64(i)
			outcomes = append(outcomes, o)
		}
		return outcomes, nil
	}
	require.NoError(t, r.runPlan(t.Context(), p))
	require.Len(t, r.report.Scenarios, len(bottlenecks))
	for i, s := range r.report.Scenarios {
		require.Contains(t, pathprofile.Names(), s.Params.Link)
		require.Equal(t, "congestion/"+bottlenecks[i], s.Name)
		require.Equal(t, 24., s.Params.Duration)
		require.Equal(t, float64(i), s.Summary("a").Metrics["playable"].Median)
		require.Equal(t, "the run failed: a probe failed", s.Summary("b").Unusable)
	}
}

// The paths are others in each repetition, and the same for all systems: one path is one sample.
func TestCongestionPaths(t *testing.T) {
	r := runnerOf([]system.Spec{{Name: "a"}, {Name: "b"}}, RunConfig{Repetitions: 3, Seed: 5})
	p := r.congestionPlans()[0]
	seeds := make(map[string][]uint64)
	p.run = func(_ context.Context, spec system.Spec) ([]*outcome, error) {
		seeds[spec.Name] = append(seeds[spec.Name], r.pathSeed)
		return slices.Repeat([]*outcome{newOutcome()}, len(p.views)), nil
	}
	require.NoError(t, r.runPlan(t.Context(), p))
	require.Equal(t, map[string][]uint64{"a": {5, 6, 7}, "b": {5, 6, 7}}, seeds)
}

func TestAddPlayback(t *testing.T) {
	o := newOutcome()
	narrow := playback.Score{Goodput: 1, Playable: .5, Keys: 1, Stalls: 2, Stalled: 3 * time.Second, Ages: upTo(2)}
	o.addPlayback(narrow, playback.Score{Goodput: 2, Playable: 1})
	require.Equal(t, map[string]float64{
		"goodput": 1, "neighbour.goodput": 2, "neighbour.playable": 100,
		"playable": 50, "keys": 100, "stalls": 2, "stalled": 3, "age.p50": 1,
	}, o.Metrics)
	for name := range o.Series {
		require.True(t, hasMetric(result.KindCongestion, name), name)
	}
}

// A frame that only one of two relays has sent gives no delay of a hop.
func TestAddChain(t *testing.T) {
	const frame = 40 * time.Millisecond
	sent := func(delays ...time.Duration) (all measure.BurstDelays) {
		for i, d := range delays {
			if d == 0 {
				all.Unmatched++
				continue
			}
			in := time.Duration(i) * frame
			all.Matched = append(all.Matched, measure.BurstDelay{
				In:  measure.Burst{First: in, Last: in + time.Millisecond},
				Out: measure.Burst{First: in + d, Last: in + 2*d + time.Millisecond},
			})
		}
		return all
	}
	const ms = time.Millisecond
	o := newOutcome()
	o.addChain([]measure.BurstDelays{
		sent(1*ms, 1*ms, 0, 2*ms), sent(3*ms, 2*ms, 4*ms, 3*ms), sent(4*ms, 0, 5*ms, 7*ms),
	})
	require.Equal(t, []float64{4, 5, 7}, o.values["first"])
	require.Equal(t, []float64{8, 10, 14}, o.values["last"])
	require.Equal(t, []float64{1, 1, 1, 1, 2, 4}, o.values["hop"])
	require.Equal(t, []float64{2, 2, 2, 2, 4, 8}, o.values["hop.last"])
	require.Equal(t, 25., o.Metrics["unmatched"])
	for name := range o.Metrics {
		require.True(t, hasMetric(result.KindChain, name), name)
	}

	o = newOutcome()
	o.addChain([]measure.BurstDelays{sent(1*ms, 2*ms)})
	require.Equal(t, []float64{1, 2}, o.values["first"])
	require.NotContains(t, o.values, "hop", "there is no further relay")
	require.Empty(t, o.Unusable)

	o.addChain([]measure.BurstDelays{sent(1*ms, 2*ms), sent(0, 0)})
	require.Equal(t, "no frame has come through the chain", o.Unusable)
}

func TestNoChain(t *testing.T) {
	r := runnerOf(nil, RunConfig{})
	outcomes, err := r.chainPlan(2, loadIdle).run(t.Context(), system.Spec{})
	require.NoError(t, err)
	require.Equal(t, "it is not known how to make one relay subscribe at another", outcomes[0].Unusable)
}
