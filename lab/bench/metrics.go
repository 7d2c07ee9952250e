package bench

import (
	"maps"
	"slices"
	"strings"

	"sluice/lab/bench/playback"
	"sluice/lab/bench/result"
)

// quantity is a metric and the kinds of scenarios that have it.
type quantity struct {
	result.Metric
	kinds []string
	tails bool // it is a distribution whose quantiles are metrics
}

// Whether less or more of a metric is better.
const (
	less = -1
	more = 1
)

func metric(title, unit string, better int, kinds []string) quantity {
	return quantity{result.Metric{Title: title, Unit: unit, Better: better}, kinds, false}
}

func distribution(title, unit string, better int, kinds []string) quantity {
	return quantity{result.Metric{Title: title, Unit: unit, Better: better}, kinds, true}
}

// beside returns a metric that stands beside another one: no comparison counts it.
func beside(title, unit string, kinds []string) quantity {
	return quantity{result.Metric{Title: title, Unit: unit, Better: less, Beside: true}, kinds, false}
}

var (
	everyLoad = []string{result.KindDelay, result.KindCPU, result.KindMemory, result.KindSyscalls, result.KindProfile,
		result.KindBystander, result.KindChain, result.KindConference, result.KindClients, result.KindRTSP}
	withCongestion = append([]string{result.KindCongestion}, everyLoad...)
	exceptCPU      = []string{result.KindDelay, result.KindMemory, result.KindSyscalls}
	delayOf        = []string{result.KindDelay, result.KindClients, result.KindRTSP}
	delayAndChain  = append([]string{result.KindChain}, delayOf...)
	cpuOf          = []string{result.KindCPU, result.KindConference, result.KindRTSP}
	memoryOf       = []string{result.KindMemory, result.KindRTSP}
	capacityOf     = []string{result.KindCapacity, result.KindRTSP}
	onlyChain      = []string{result.KindChain}
	onlyConference = []string{result.KindConference}
	onlySyscalls   = []string{result.KindSyscalls}
	onlyProfile    = []string{result.KindProfile}
	onlyBystander  = []string{result.KindBystander}
	onlyCongestion = []string{result.KindCongestion}
	onlyRTSP       = []string{result.KindRTSP}
)

// quantities are all metrics, distributions, breakdowns and series by name.
var quantities = map[string]quantity{
	// Delays that the relay adds to frames, at its devices.
	"first":     distribution("delay, first packet in to first packet out", "ms", less, delayAndChain),
	"last":      distribution("delay, last packet in to last packet out", "ms", less, delayAndChain),
	"jitter":    distribution("difference between the delays of consecutive frames", "ms", less, delayOf),
	"unmatched": metric("frames whose delay is unknown", "%", 0, delayAndChain),

	// From when a relay of a chain has sent a frame until the next one has, links included.
	"hop":      distribution("delay that a further relay adds, first packet", "ms", less, onlyChain),
	"hop.last": distribution("delay that a further relay adds, last packet", "ms", less, onlyChain),

	// The relay is its process without softirqs that interrupted it, and the softirqs of its devices, in which its eBPF
	// programs run. The lab's programs are nobody's.
	"cpu.frame.relay":   metric("CPU of the relay for a delivered frame", "µs", less, cpuOf),
	"cpu.packet.relay":  beside("CPU of the relay for a delivered packet", "µs", cpuOf),
	"cpu.frame":         metric("CPU of the whole system for a delivered frame", "µs", less, cpuOf),
	"cpu.packet":        beside("CPU of the whole system for a delivered packet", "µs", cpuOf),
	"cpu.relay":         metric("CPU of the relay", "% of a core", less, cpuOf),
	"cpu.relay.user":    metric("CPU of the relay process, user", "% of a core", 0, cpuOf),
	"cpu.relay.system":  metric("CPU of the relay in the kernel, without eBPF", "% of a core", 0, cpuOf),
	"cpu.relay.softirq": metric("softirqs of the relay's devices, in its CPU", "% of a core", 0, cpuOf),
	"cpu.ebpf":          metric("run time of the relay's eBPF programs in softirqs", "% of a core", 0, cpuOf),
	"cpu.ebpf.runs":     metric("runs of the relay's eBPF programs", "/s", 0, cpuOf),
	"cpu.system":        metric("CPU of the whole system over idle", "% of a core", less, cpuOf),
	"cpu.lab":           metric("run time of the lab's eBPF programs, in nobody's CPU", "% of a core", 0, cpuOf),
	"cpu.lab.relay":     metric("run time of the lab's recorder at the relay", "% of a core", 0, cpuOf),
	"cpu.publisher":     metric("CPU of the publisher", "% of a core", 0, cpuOf),
	"cpu.subscribers":   metric("CPU of the subscribers", "% of a core", 0, cpuOf),
	"frames":            metric("frames delivered", "/s", 0, cpuOf),
	"frames.packets":    metric("packets for a delivered frame", "", 0, cpuOf),
	"cpu":               metric("CPU over idle by user", "% of a core", less, cpuOf),
	"cpu.relay.wakeups": metric("wake-ups of the relay's threads", "/s", less, cpuOf),
	// Over time, with softirqs as above.
	"host.relay":       metric("CPU of the relay's host", "% of a core", less, cpuOf),
	"host.publisher":   metric("CPU of the publisher's host", "% of a core", 0, cpuOf),
	"host.subscribers": metric("CPU of the subscribers' host", "% of a core", 0, cpuOf),
	// The packets that the kernel cuts from one datagram (UDP GSO) count as one.
	"datagrams.received": metric("datagrams that the relay process received", "/s", 0, cpuOf),
	"datagrams.sent":     metric("datagrams that the relay process sent", "/s", 0, cpuOf),

	"memory.resident":     metric("resident memory of the relay", "MiB", less, memoryOf),
	"memory.proportional": metric("proportional memory of the relay (PSS)", "MiB", less, memoryOf),
	"memory.peak":         metric("peak resident memory of the relay", "MiB", less, memoryOf),
	"memory.maps":         metric("memory of the relay's BPF maps", "MiB", less, memoryOf),
	"memory.session":      metric("resident memory that the relay took for each subscriber", "KiB", less, memoryOf),

	"syscalls":        metric("system calls of the relay in 30 s of video, by name", "", less, onlySyscalls),
	"syscalls.total":  metric("system calls of the relay in 30 s of video", "", less, onlySyscalls),
	"syscalls.frame":  metric("system calls of the relay for a delivered frame", "", less, onlySyscalls),
	"syscalls.time":   metric("time in system calls in 30 s of video, by name", "s", 0, onlySyscalls),
	"syscalls.busy":   metric("time in system calls that do not wait, in 30 s of video", "s", less, onlySyscalls),
	"syscalls.packet": beside("system calls of the relay for a delivered packet", "", onlySyscalls),

	"profile":     metric("CPU time of the relay's process, by function that runs", "%", less, onlyProfile),
	"profile.cpu": metric("CPU time of the relay's process in 30 s of video", "s", less, onlyProfile),

	"capacity": metric("subscribers with a p99 delay of at most 5 ms and without loss", "", more, capacityOf),
	"capacity.atleast": metric(
		"subscribers that were served well when the load generator was at its limit", "", more, capacityOf),
	"capacity.p99": metric("p99 delay of a last packet by subscribers", "ms", less, capacityOf),

	// init adds the metrics of package playback.
	"neighbour.goodput":  metric("media that arrived in time without a bottleneck", "Mbit/s", more, onlyCongestion),
	"neighbour.playable": metric("frames that could be shown without a bottleneck", "%", more, onlyCongestion),
	"bulk":               metric("rate of the bulk flow", "Mbit/s", 0, onlyCongestion),

	"ping":      distribution("ping of a bystander, from when it was due until the reply", "ms", less, onlyBystander),
	"ping.idle": distribution("ping of a bystander before media flowed", "ms", 0, onlyBystander),
	"ping.lost": metric("pings without a reply", "", less, onlyBystander),

	"glass": distribution("age of frames when another participant has them", "ms", less, onlyConference),

	// Metrics that show how reliable the others are.
	"packets":        metric("packets delivered", "", 0, everyLoad),
	"lost":           metric("objects that did not arrive", "", less, everyLoad),
	"rtp.lost":       metric("RTP packets that did not arrive", "", less, onlyRTSP),
	"rtp.disordered": metric("RTP packets that arrived after one that follows them", "", less, onlyRTSP),
	"corrupt":        metric("objects with a wrong content", "", less, withCongestion),
	"kernel":         metric("media packets that the kernel sent by itself", "%", 0, withCongestion),
	"late":           metric("how late the publisher was with frames, p99", "ms", 0, everyLoad),
	"busy":           metric("CPU of the whole machine", "%", 0, everyLoad),
	"generator":      metric("CPU of publisher and subscribers", "% of a core", 0, exceptCPU),
	"others":         metric("CPU of unrelated processes", "% of a core", 0, withCongestion),
	"steal":          metric("CPU time that the hypervisor gave to others", "%", 0, everyLoad),
}

func init() {
	for name, m := range playback.Metrics {
		quantities[name] = quantity{m, onlyCongestion, name == playback.Age}
	}
}

// hasMetric reports whether scenarios of a kind have a metric, or a quantile of a distribution.
func hasMetric(kind, name string) bool {
	if q, ok := quantities[name]; ok {
		return slices.Contains(q.kinds, kind)
	}
	for _, t := range result.Tails() {
		if base, ok := strings.CutSuffix(name, "."+t.Name); ok {
			return quantities[base].tails && slices.Contains(quantities[base].kinds, kind)
		}
	}
	return false
}

// describe returns all metrics, quantiles included.
func describe() map[string]result.Metric {
	all := make(map[string]result.Metric)
	for name, q := range quantities {
		all[name] = q.Metric
		for _, t := range result.Tails() {
			if q.tails {
				all[name+"."+t.Name] = result.Metric{Title: q.Title + ", " + t.Name, Unit: q.Unit, Better: q.Better}
			}
		}
	}
	return all
}

// ofKind returns the values that belong to a kind of scenarios.
func ofKind[V any](kind string, all map[string]V) map[string]V {
	kept := maps.Clone(all)
	maps.DeleteFunc(kept, func(name string, _ V) bool { return !hasMetric(kind, name) })
	return kept
}
