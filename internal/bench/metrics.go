package bench

import (
	"maps"
	"slices"
)

// Kinds of scenarios.
const (
	KindDelay      = "delay"
	KindCPU        = "cpu"
	KindMemory     = "memory"
	KindSyscalls   = "syscalls"
	KindCapacity   = "capacity"
	KindCongestion = "congestion"
)

// Kinds returns the kinds of scenarios in the order in which they are shown.
func Kinds() []string {
	return []string{KindDelay, KindCPU, KindMemory, KindSyscalls, KindCapacity, KindCongestion}
}

// quantity is a metric and the kinds of scenarios that have it.
type quantity struct {
	Metric
	kinds []string
	tails bool // it is a distribution, whose quantiles are metrics
}

const (
	less = -1
	more = 1
)

var (
	everyLoad = []string{KindDelay, KindCPU, KindMemory, KindSyscalls}
	onlyDelay = []string{KindDelay}
	onlyCPU   = []string{KindCPU}
)

// quantities are all metrics, distributions, breakdowns and series by name.
var quantities = map[string]quantity{
	// Delays that the relay adds to frames, at its devices.
	"first":        {Metric{"delay, first packet in to first packet out", "ms", less}, onlyDelay, true},
	"last":         {Metric{"delay, last packet in to last packet out", "ms", less}, onlyDelay, true},
	"fanout.first": {Metric{"delay of the first subscriber's first packet", "ms", less}, onlyDelay, true},
	"fanout.last":  {Metric{"delay of the last subscriber's last packet", "ms", less}, onlyDelay, true},
	"jitter":       {Metric{"difference between the delays of two frames that follow each other", "ms", less}, onlyDelay, true},
	"unmatched":    {Metric{"frames whose packets could not be told apart", "%", 0}, onlyDelay, false},

	"cpu.system":        {Metric{"CPU of the whole system over idle", "% of a core", less}, onlyCPU, false},
	"cpu.relay":         {Metric{"CPU of the relay process and its eBPF programs", "% of a core", less}, onlyCPU, false},
	"cpu.relay.user":    {Metric{"CPU of the relay process, user", "% of a core", 0}, onlyCPU, false},
	"cpu.relay.system":  {Metric{"CPU of the relay process, system", "% of a core", 0}, onlyCPU, false},
	"cpu.ebpf":          {Metric{"run time of the relay's eBPF programs", "% of a core", 0}, onlyCPU, false},
	"cpu.lab":           {Metric{"run time of the lab's eBPF programs", "% of a core", 0}, onlyCPU, false},
	"cpu.softirq":       {Metric{"CPU in softirq, sampled", "% of a core", 0}, onlyCPU, false},
	"cpu.publisher":     {Metric{"CPU of the publisher", "% of a core", 0}, onlyCPU, false},
	"cpu.subscribers":   {Metric{"CPU of the subscribers", "% of a core", 0}, onlyCPU, false},
	"cpu.packet":        {Metric{"CPU of the whole system for a delivered packet", "µs", less}, onlyCPU, false},
	"cpu.packet.relay":  {Metric{"CPU of the relay and its eBPF programs for a delivered packet", "µs", less}, onlyCPU, false},
	"cpu.subscriber":    {Metric{"CPU of the relay and its eBPF programs for a subscriber", "% of a core", less}, onlyCPU, false},
	"cpu":               {Metric{"CPU over idle by who used it", "% of a core", less}, onlyCPU, false},
	"cpu.relay.wakeups": {Metric{"wake-ups of the relay's threads", "/s", less}, onlyCPU, false},
	// A train of packets that the kernel makes of one (UDP GSO) is one.
	"datagrams.received": {Metric{"datagrams that the relay process received", "/s", 0}, onlyCPU, false},
	"datagrams.sent":     {Metric{"datagrams that the relay process sent", "/s", 0}, onlyCPU, false},

	"memory.resident": {Metric{"resident memory of the relay", "MiB", less}, []string{KindMemory}, false},
	"memory.peak":     {Metric{"peak resident memory of the relay", "MiB", less}, []string{KindMemory}, false},
	"memory.maps":     {Metric{"memory of the relay's BPF maps", "MiB", less}, []string{KindMemory}, false},

	"syscalls":        {Metric{"system calls of the relay in 30 s of video, by name", "", less}, []string{KindSyscalls}, false},
	"syscalls.total":  {Metric{"system calls of the relay in 30 s of video", "", less}, []string{KindSyscalls}, false},
	"syscalls.packet": {Metric{"system calls of the relay for a delivered packet", "", less}, []string{KindSyscalls}, false},

	"capacity":         {Metric{"subscribers with a p99 delay of at most 5 ms and without loss", "", more}, []string{KindCapacity}, false},
	"capacity.atleast": {Metric{"subscribers that were served well when the load generator was at its limit", "", more}, []string{KindCapacity}, false},
	"capacity.p99":     {Metric{"p99 delay of a last packet by subscribers", "ms", less}, []string{KindCapacity}, false},

	"goodput":           {Metric{"media that came in time", "Mbit/s", more}, []string{KindCongestion}, false},
	"neighbour.goodput": {Metric{"media that came in time to a subscriber without bottleneck", "Mbit/s", more}, []string{KindCongestion}, false},
	"link":              {Metric{"rate of the bottleneck", "Mbit/s", 0}, []string{KindCongestion}, false},
	"playable":          {Metric{"frames that could be shown in time", "%", more}, []string{KindCongestion}, false},
	"keys":              {Metric{"key frames that came in time", "%", more}, []string{KindCongestion}, false},
	"stalls":            {Metric{"stalls", "", less}, []string{KindCongestion}, false},
	"stalled":           {Metric{"time in stalls", "s", less}, []string{KindCongestion}, false},
	"age":               {Metric{"age of frames on arrival", "ms", less}, []string{KindCongestion}, true},

	// How sure the rest is.
	"packets":   {Metric{"packets delivered", "", 0}, everyLoad, false},
	"lost":      {Metric{"objects that did not come", "", less}, everyLoad, false},
	"corrupt":   {Metric{"objects with a wrong content", "", less}, append([]string{KindCongestion}, everyLoad...), false},
	"kernel":    {Metric{"media packets that the kernel sent by itself", "%", 0}, append([]string{KindCongestion}, everyLoad...), false},
	"late":      {Metric{"how late the publisher was with frames, p99", "ms", 0}, everyLoad, false},
	"busy":      {Metric{"CPU of the whole machine", "%", 0}, everyLoad, false},
	"generator": {Metric{"CPU of publisher and subscribers", "% of a core", 0}, []string{KindDelay, KindMemory, KindSyscalls}, false},
	"others":    {Metric{"CPU of processes that have no part in it", "% of a core", 0}, append([]string{KindCongestion}, everyLoad...), false},
	"steal":     {Metric{"CPU time that the hypervisor gave to others", "%", 0}, everyLoad, false},
}

// has reports whether scenarios of a kind have a metric, or a quantile of one.
func has(kind, name string) bool {
	if q, ok := quantities[name]; ok {
		return slices.Contains(q.kinds, kind)
	}
	for _, t := range tails {
		if base := name[:max(0, len(name)-len(t.name)-1)]; base+"."+t.name == name {
			return quantities[base].tails && slices.Contains(quantities[base].kinds, kind)
		}
	}
	return false
}

// describe returns all metrics with those of quantiles.
func describe() map[string]Metric {
	all := make(map[string]Metric)
	for name, q := range quantities {
		all[name] = q.Metric
		for _, t := range tails {
			if q.tails {
				all[name+"."+t.name] = Metric{q.Title + ", " + t.name, q.Unit, q.Better}
			}
		}
	}
	return all
}

// of returns what a run found for a kind of scenarios.
func (o outcome) of(kind string) outcome {
	keep := func(name string) bool { return !has(kind, name) }
	if kind == KindCPU {
		o.Notes = slices.Concat(o.Notes, o.cpuNotes)
	}
	o.Metrics = maps.Clone(o.Metrics)
	maps.DeleteFunc(o.Metrics, func(name string, _ float64) bool { return keep(name) })
	o.Breakdowns = maps.Clone(o.Breakdowns)
	maps.DeleteFunc(o.Breakdowns, func(name string, _ map[string]float64) bool { return keep(name) })
	o.Series = maps.Clone(o.Series)
	maps.DeleteFunc(o.Series, func(name string, _ Series) bool { return keep(name) })
	o.values = maps.Clone(o.values)
	maps.DeleteFunc(o.values, func(name string, _ []float64) bool { return keep(name) })
	return o
}
