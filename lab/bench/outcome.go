package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"sluice/lab/bench/load"
	"sluice/lab/bench/playback"
	"sluice/lab/bench/result"
	"sluice/lab/bench/syscalls"
	"sluice/lab/bench/trial"
	"sluice/lab/measure"
)

// syscallPeriod is how long system calls are counted.
const syscallPeriod = 30 * time.Second

// profilePeriod is how long a relay is profiled.
const profilePeriod = 2 * time.Minute

// outcome is the result of a run: a result.Run before its distributions are reduced to quantiles.
type outcome struct {
	result.Run
	values   map[string][]float64 // of each distribution, sorted
	cpuNotes []string             // Run.Notes of scenarios about CPU time
	peer     string               // the implementation that the relay names
	// exhausted is which processes other than the relay used up the machine; "" if there are none. Memory does not
	// depend on it.
	exhausted string
}

func newOutcome() *outcome {
	return &outcome{
		Run: result.Run{
			Metrics:    make(map[string]float64),
			Breakdowns: make(map[string]map[string]float64),
			Series:     make(map[string]result.Series),
		},
		values: make(map[string][]float64),
	}
}

// finished returns the run with its distributions.
func (o outcome) finished() result.Run {
	o.Distributions = make(map[string]result.Distribution)
	for name, values := range o.values {
		o.Distributions[name] = result.NewDistribution(values)
	}
	return o.Run
}

// addValues adds a distribution and its quantiles.
func (o *outcome) addValues(name string, sorted []float64) {
	o.values[name] = sorted
	result.AddQuantiles(o.Metrics, name, sorted)
}

// addUsage adds the metrics that show how reliable the others are.
func (o *outcome) addUsage(u *trial.Usage) {
	m := o.Metrics
	m["generator"] = u.Percent(u.Publisher.Total() + u.Subscribers.Total())
	m["busy"] = u.Percent(u.Busy) / float64(u.Cores)
	m["steal"] = u.Percent(u.Steal) / float64(u.Cores)
	m["others"] = u.Percent(u.Others)
	m["packets"] = float64(u.Packets)
	m["late"] = milliseconds(u.LateP99)
	if all := u.KernelPackets + u.UserPackets; all > 0 {
		m["kernel"] = 100 * u.KernelPackets / all
	}
}

// addMemory adds the memory of the relay. The memory of a session is its part of the growth since there were no
// subscribers, cached media included.
func (o *outcome) addMemory(m *trial.Measurement) {
	const kibibyte, mebibyte = 1 << 10, 1 << 20
	o.Metrics["memory.resident"] = float64(m.Memory.Resident) / mebibyte
	o.Metrics["memory.proportional"] = float64(m.Memory.Proportional) / mebibyte
	o.Metrics["memory.peak"] = float64(m.Memory.Peak) / mebibyte
	o.Metrics["memory.maps"] = float64(m.Memory.Maps) / mebibyte
	grown := float64(m.Memory.Resident) - float64(m.Before.Resident)
	o.Metrics["memory.session"] = grown / float64(max(m.Sessions, 1)) / kibibyte
}

// addCPU adds the use of CPU time.
func (o *outcome) addCPU(u *trial.Usage) {
	m, relay := o.Metrics, u.RelayTotal()
	m["cpu.relay"] = u.Percent(relay)
	m["cpu.relay.user"] = u.Percent(u.Relay.Process.User)
	m["cpu.relay.system"] = u.Percent(u.RelaySystem())
	m["cpu.relay.softirq"] = u.Percent(u.Relay.Devices)
	m["cpu.ebpf"] = u.Percent(u.EBPF)
	m["cpu.lab"], m["cpu.lab.relay"] = u.Percent(u.Lab), u.Percent(u.Recorder)
	m["cpu.publisher"] = u.Percent(u.Publisher.Total())
	m["cpu.subscribers"] = u.Percent(u.Subscribers.Total())
	m["cpu.relay.wakeups"] = float64(max(0, u.Activity.Wakeups)) / u.Period.Seconds()
	if !u.Apart { // the counters cover the relay's network, which it has to itself only in the lab
		m["datagrams.received"] = float64(u.Activity.Received) / u.Period.Seconds()
		m["datagrams.sent"] = float64(u.Activity.Sent) / u.Period.Seconds()
	}
	m["cpu.frame.relay"], m["cpu.packet.relay"] = u.PerFrame(relay), u.PerPacket(relay)
	m["frames"] = float64(u.Delivered) / u.Period.Seconds()
	m["frames.packets"] = float64(u.Packets) / float64(max(u.Delivered, 1))
	parts := map[string]float64{
		"relay, user":   u.Percent(u.Relay.Process.User),
		"relay, kernel": u.Percent(u.RelaySystem()),
		"relay, eBPF":   u.Percent(u.EBPF),
		"publisher":     u.Percent(u.Publisher.Total()),
		"subscribers":   u.Percent(u.Subscribers.Total()),
	}
	o.Breakdowns["cpu"] = parts
	over, ok := u.SystemTotal()
	if !ok {
		o.cpuNotes = append(o.cpuNotes, "unrelated processes hide what the whole system used")
		return
	}
	m["cpu.system"] = u.Percent(over)
	m["cpu.frame"], m["cpu.packet"] = u.PerFrame(over), u.PerPacket(over)
	rest := over - relay
	if !u.Apart {
		rest -= u.Publisher.Total() + u.Subscribers.Total()
	}
	parts["links and all other"] = u.Percent(max(0, rest))
}

// addTimeline adds the use of CPU time over time, and of each eBPF program of the relay in softirqs.
func (o *outcome) addTimeline(m *trial.Measurement) {
	var relay, ebpf, publisher, subscribers result.Series
	for _, u := range m.Timeline {
		add := func(s *result.Series, used time.Duration) {
			at := u.Begin - m.Begin + u.Period/2
			s.Add(at.Round(time.Millisecond).Seconds(), math.Round(100*u.Percent(used))/100)
		}
		add(&relay, u.RelayTotal())
		add(&ebpf, u.EBPF)
		add(&publisher, u.Publisher.Total())
		add(&subscribers, u.Subscribers.Total())
	}
	o.Series["host.relay"], o.Series["cpu.ebpf"] = relay, ebpf
	o.Series["host.publisher"], o.Series["host.subscribers"] = publisher, subscribers
	if len(m.Programs) == 0 {
		return
	}
	used := make(map[string]float64)
	for _, p := range m.Programs {
		if !p.Within { // the parts must add up
			used[p.Name] += m.Percent(p.Runtime)
		}
		o.Metrics["cpu.ebpf.runs"] += float64(p.Runs) / m.Period.Seconds()
	}
	o.Breakdowns["cpu.ebpf"] = used
}

// addBursts adds the delays of frames.
func (o *outcome) addBursts(b measure.BurstDelays) {
	o.addValues("first", sorted(b.First()))
	o.addValues("last", sorted(b.Last()))
	o.Metrics["unmatched"] = 100 * float64(b.Unmatched) / float64(max(len(b.Matched)+b.Unmatched, 1))
}

// addChain adds the delays of a chain, where each relay has sent some frames.
func (o *outcome) addChain(sent []measure.BurstDelays) {
	whole := sent[len(sent)-1]
	o.addBursts(whole)
	if len(whole.Matched) == 0 {
		o.Unusable = cmp.Or(o.Unusable, "no frame has come through the chain")
	}
	var first, last measure.Delays
	for i := range sent[1:] {
		before := make(map[time.Duration]measure.BurstDelay) // by when the frame entered the chain
		for _, b := range sent[i].Matched {
			before[b.In.First] = b
		}
		for _, b := range sent[i+1].Matched {
			if earlier, ok := before[b.In.First]; ok {
				first, last = append(first, b.First()-earlier.First()), append(last, b.Last()-earlier.Last())
			}
		}
	}
	if len(sent) > 1 {
		o.addValues("hop", sorted(first))
		o.addValues("hop.last", sorted(last))
	}
}

// addPlayback adds the scores of playback of the subscriber behind the bottleneck and of its neighbour.
func (o *outcome) addPlayback(narrow, neighbour playback.Score) {
	narrow.AddTo(&o.Run)
	o.addValues(playback.Age, narrow.Ages)
	o.Metrics["neighbour.goodput"], o.Metrics["neighbour.playable"] = neighbour.Goodput, 100*neighbour.Playable
	o.Series["neighbour.goodput"] = neighbour.GoodputOverTime
}

// addDelays adds the delays that a relay added to frames, by subscriber, and their medians over all subscribers by when
// the frames entered the relay.
func (o *outcome) addDelays(m *trial.Measurement) {
	bursts := measure.MatchBursts(m.Packets)
	o.addBursts(bursts)
	var jitter []float64
	frames := make(map[time.Duration][]measure.BurstDelay) // by when they entered
	previous := make(map[netip.AddrPort]float64)
	for _, b := range bursts.Matched {
		first := milliseconds(b.First())
		if before, ok := previous[b.Target]; ok {
			jitter = append(jitter, math.Abs(first-before))
		}
		previous[b.Target] = first
		frames[b.In.First] = append(frames[b.In.First], b)
	}
	slices.Sort(jitter)
	o.addValues("jitter", jitter)
	var first, last result.Series
	for _, in := range slices.Sorted(maps.Keys(frames)) {
		at := (in - m.Begin).Round(time.Millisecond).Seconds()
		first.Add(at, median(frames[in], measure.BurstDelay.First))
		last.Add(at, median(frames[in], measure.BurstDelay.Last))
	}
	o.Series["first"], o.Series["last"] = first, last
}

// median returns the median delay over the subscribers that a frame reached, rounded for storage.
func median(targets []measure.BurstDelay, of func(measure.BurstDelay) time.Duration) float64 {
	values := make([]float64, len(targets))
	for i, b := range targets {
		values[i] = milliseconds(of(b).Round(100 * time.Nanosecond))
	}
	return result.NewStatistic(values).Median
}

// addObjects adds the objects that the load generators report.
func (o *outcome) addObjects(m *trial.Measurement) {
	var received, corrupt, packets, disordered uint64
	for _, host := range m.Received {
		for _, r := range host {
			received += r.Objects
			corrupt += r.Corrupt
			packets += r.Packets
			disordered += r.Disordered
		}
	}
	o.Metrics["rtp.disordered"] = float64(disordered)
	o.Metrics["rtp.lost"] = float64(m.Published.Packets)*float64(m.Sessions) - float64(packets)
	sessions := float64(m.Sessions) / float64(max(m.Publishers, 1)) // of each publisher
	o.Metrics["lost"] = float64(m.Published.Objects)*sessions - float64(received)
	o.Metrics["corrupt"] = float64(corrupt)
	if m.Published.Failed > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("%d objects could not be sent to the relay", m.Published.Failed))
	}
}

// addSyscalls adds the system calls that the relay made in a period.
func (o *outcome) addSyscalls(total map[string]syscalls.Calls, u *trial.Usage) {
	per30 := syscallPeriod.Seconds() / u.Period.Seconds() // so that brief runs can be compared, too
	counts, times := make(map[string]float64), make(map[string]float64)
	for name, calls := range total {
		n := float64(calls.Count)
		counts[name] = n * per30
		times[name] = calls.Time.Seconds() * per30
		if !syscalls.Waits(name) {
			o.Metrics["syscalls.busy"] += times[name]
		}
		o.Metrics["syscalls.total"] += n * per30
		o.Metrics["syscalls.frame"] += n / float64(max(u.Delivered, 1))
		o.Metrics["syscalls.packet"] += n / float64(max(u.Packets, 1))
	}
	o.Breakdowns["syscalls"], o.Breakdowns["syscalls.time"] = counts, times
}

// addProfile adds the parts of the relay's CPU time that its functions took.
func (o *outcome) addProfile(used map[string]time.Duration, u *trial.Usage) {
	var all time.Duration
	for _, t := range used {
		all += t
	}
	parts := make(map[string]float64)
	for name, t := range used {
		if part := 100 * t.Seconds() / all.Seconds(); part >= smallestPart {
			parts[name] = part
		} else {
			parts["others"] += part
		}
	}
	o.Breakdowns["profile"] = parts
	o.Metrics["profile.cpu"] = all.Seconds() * syscallPeriod.Seconds() / u.Period.Seconds()
}

// smallestPart is the smallest part of the CPU time, in per cent, of a function that a profile lists.
const smallestPart = 2

// addPings adds the pings of a bystander, and those before media flowed.
func (o *outcome) addPings(busy, idle load.Pinged) {
	o.addValues("ping", busy.Delays)
	o.addValues("ping.idle", idle.Delays)
	o.Metrics["ping.lost"] = float64(busy.Lost + idle.Lost)
}

// of returns the part of an outcome that belongs to a kind of scenarios.
func (o outcome) of(kind string) outcome {
	if kind != result.KindMemory {
		o.Unusable = cmp.Or(o.Unusable, o.exhausted)
	}
	if slices.Contains(cpuOf, kind) {
		o.Notes = slices.Concat(o.Notes, o.cpuNotes)
	}
	o.Metrics = ofKind(kind, o.Metrics)
	o.Breakdowns = ofKind(kind, o.Breakdowns)
	o.Series = ofKind(kind, o.Series)
	o.values = ofKind(kind, o.values)
	return o
}

// summarize returns the summary of the runs of one system. Quantiles that need more values than a run has are of all
// runs together, if these have enough. They have no range.
func summarize(system string, outcomes []outcome) result.Summary {
	var runs []result.Run
	pooled := make(map[string][]float64)
	for _, o := range outcomes {
		runs = append(runs, o.Run)
		if o.Unusable == "" {
			for name, values := range o.values {
				pooled[name] = append(pooled[name], values...)
			}
		}
	}
	s := result.Summarize(system, runs)
	tails := make(map[string]float64)
	for name, all := range pooled {
		if s.Distributions == nil {
			s.Distributions = make(map[string]result.Distribution)
		}
		s.Distributions[name] = result.NewDistribution(all) // it sorts them
		result.AddQuantiles(tails, name, all)
	}
	for name, v := range tails {
		if _, ok := s.Metrics[name]; !ok {
			s.Metrics[name] = result.Statistic{Median: v, Min: v, Max: v}
		}
	}
	return s
}

// sorted returns delays in milliseconds, the smallest first.
func sorted(d measure.Delays) []float64 {
	values := make([]float64, len(d))
	for i := range d {
		values[i] = milliseconds(d[i])
	}
	slices.Sort(values)
	return values
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
