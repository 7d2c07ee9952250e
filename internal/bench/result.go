// Package bench measures relays in the lab: the delay they add, the CPU and memory they take, how many subscribers they serve, and what
// they do on a congested path.
package bench

import "time"

// Format is the version of the JSON form of a Report. It changes when a reader of older reports would misunderstand them.
const Format = 1

// Report is all that a run of the benchmark found. It is what results.json has.
type Report struct {
	Format   int       `json:"format"`
	Commit   string    `json:"commit"` // of the program that measured, "-dirty" behind it if there were changes
	Date     time.Time `json:"date"`
	Duration float64   `json:"duration"` // of the whole run, seconds
	Command  []string  `json:"command"`  // that makes such a report again
	Seed     uint64    `json:"seed"`
	Machine  Machine   `json:"machine"`
	Systems  []System  `json:"systems"` // in the order in which they are shown; the first is the one that others are compared with

	// Metrics describes every name that Run.Metrics, Run.Distributions, Run.Breakdowns and Run.Series use.
	Metrics   map[string]Metric `json:"metrics"`
	Scenarios []Scenario        `json:"scenarios"`
}

// Machine is what it was measured on, and what else happened there.
type Machine struct {
	Kernel      string            `json:"kernel"`
	CPU         string            `json:"cpu"` // model name
	Cores       int               `json:"cores"`
	Memory      uint64            `json:"memory"`      // bytes
	Virtualised string            `json:"virtualised"` // name of the hypervisor; "" if there is none or it does not tell
	Governor    string            `json:"governor"`    // of CPU frequencies; "" if the kernel controls none
	Offloads    map[string]string `json:"offloads"`    // of the lab's devices: feature -> on or off
	Load        float64           `json:"load"`        // load average over a minute when the run began
	Steal       float64           `json:"steal"`       // share of CPU time that the hypervisor gave to others during the run, 0 to 1
}

// System is a relay that was measured.
type System struct {
	Name    string `json:"name"`
	Version string `json:"version"` // as it tells itself, or ""
	Command string `json:"command"` // with which it was started
}

// Metric describes a quantity.
type Metric struct {
	Title  string `json:"title"`  // of a column or an axis, without the unit
	Unit   string `json:"unit"`   // µs, s, %, MiB, Mbit/s, …; "" for a count
	Better int    `json:"better"` // 1: more is better, -1: less is better, 0: neither
}

// Scenario is a load under which every system was run.
type Scenario struct {
	Kind   string `json:"kind"` // delay, cpu, memory, syscalls, capacity or congestion: scenarios of a kind have the same metrics
	Name   string `json:"name"` // unique in a report, the same in all reports with these Params: compare by it
	Title  string `json:"title"`
	Params Params `json:"params"`
	// Runs are in the order in which they happened: A B A B …
	Runs []Run `json:"runs"`
	// Summaries has one element for each system that was run, in the order of Report.Systems.
	Summaries []Summary `json:"summaries"`
}

// Params are the parameters of a scenario. Those that do not matter are zero.
type Params struct {
	Subscribers int     `json:"subscribers,omitempty"`
	Load        string  `json:"load,omitempty"`      // what competes for the CPU: idle or hog
	Link        string  `json:"link,omitempty"`      // of the subscriber with a bottleneck: constant or step
	Media       string  `json:"media,omitempty"`     // mock, or the name of a clip
	Rate        float64 `json:"rate,omitempty"`      // of the media, Mbit/s
	FrameRate   float64 `json:"frameRate,omitempty"` // frames a second
	Duration    float64 `json:"duration,omitempty"`  // of one run, seconds, without what was discarded
	Warmup      float64 `json:"warmup,omitempty"`    // discarded at its start, seconds
}

// Run is one repetition with one system.
type Run struct {
	System     string `json:"system"`
	Repetition int    `json:"repetition"` // from 1
	// Unusable says why the numbers must not be used, for example that the load generator was the bottleneck. The run then counts
	// in no Summary. "" if all is well.
	Unusable string   `json:"unusable,omitempty"`
	Notes    []string `json:"notes,omitempty"` // what a reader of the numbers has to know

	Metrics       map[string]float64            `json:"metrics,omitempty"`
	Distributions map[string]Distribution       `json:"distributions,omitempty"`
	Breakdowns    map[string]map[string]float64 `json:"breakdowns,omitempty"` // a quantity by part: CPU by who used it, system calls by name
	Series        map[string]Series             `json:"series,omitempty"`     // over time
}

// Distribution is the sorted values of a quantity at some quantiles, enough to draw it: At[i] is the fraction of all values, from 0 to
// 1 and ascending, that do not exceed Value[i].
type Distribution struct {
	Count int       `json:"count"` // of values
	At    []float64 `json:"at"`
	Value []float64 `json:"value"`
}

// Series is a quantity over time.
type Series struct {
	Time  []float64 `json:"time"` // seconds since the run began, without the warm-up
	Value []float64 `json:"value"`
}

// Summary is all usable runs of a system in a scenario.
type Summary struct {
	System string `json:"system"`
	Runs   int    `json:"runs"` // that are usable
	// Unusable says why there are no numbers, if no run is usable; Notes are those of its runs, each once.
	Unusable string   `json:"unusable,omitempty"`
	Notes    []string `json:"notes,omitempty"`

	Metrics       map[string]Statistic            `json:"metrics,omitempty"`
	Distributions map[string]Distribution         `json:"distributions,omitempty"` // over the values of all runs
	Breakdowns    map[string]map[string]Statistic `json:"breakdowns,omitempty"`
}

// Statistic is a metric over several runs.
type Statistic struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}
