package result

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Format is the version of the JSON form of a Report. It changes when a reader of older reports would misunderstand
// them.
const Format = 1

// Report holds the results of a run of the benchmark. The file results.json holds one.
type Report struct {
	Format   int       `json:"format"`
	Commit   string    `json:"commit"` // of the program that measured; it ends in "-dirty" if there were changes
	Date     time.Time `json:"date"`
	Duration float64   `json:"duration"` // of the whole run, seconds
	Command  []string  `json:"command"`  // makes such a report again
	Seed     uint64    `json:"seed"`
	Machine  Machine   `json:"machine"`         // of the relay
	Hosts    []Host    `json:"hosts,omitempty"` // machines of their own, if there was no lab
	Systems  []System  `json:"systems"`         // in display order; the others are compared with the first

	// Metrics describes every name in Run.Metrics, Run.Distributions, Run.Breakdowns and Run.Series.
	Metrics   map[string]Metric `json:"metrics"`
	Scenarios []Scenario        `json:"scenarios"`
}

// Machine describes where a report was measured.
type Machine struct {
	Kernel      string            `json:"kernel"`
	CPU         string            `json:"cpu"` // model name
	Cores       int               `json:"cores"`
	Memory      uint64            `json:"memory"`      // bytes
	Virtualised string            `json:"virtualised"` // name of the hypervisor, "unknown", or "" if there is none
	Governor    string            `json:"governor"`    // of CPU frequencies; "" if the kernel controls none
	Offloads    map[string]string `json:"offloads"`    // of its network device: feature -> on or off
	Load        float64           `json:"load"`        // load average over a minute when the run began
	Steal       float64           `json:"steal"`       // share of CPU time that the hypervisor gave to others, 0 to 1
}

// Host is a machine of its own for a part of a bench.
type Host struct {
	Role    string  `json:"role"` // pub, relay or sub
	Machine Machine `json:"machine"`
	// Device faces the relay; the relay's faces the publisher.
	Device Device `json:"device"`
}

// Device is a network device, and how packets are spread over the processors of its machine.
type Device struct {
	Name   string `json:"name"`
	Driver string `json:"driver"` // "" of a virtual device
	MTU    int    `json:"mtu"`
	Queues int    `json:"queues"` // that receive (RSS)
	RPS    string `json:"rps"`    // processors to which the first queue's packets are handed, as a mask
}

// System is a relay that was measured.
type System struct {
	Name    string `json:"name"`
	Version string `json:"version"` // as it reports it, or ""
	Command string `json:"command"` // that started it
}

// Metric describes a quantity.
type Metric struct {
	Title  string `json:"title"`  // of a column or an axis, without the unit
	Unit   string `json:"unit"`   // µs, s, %, MiB, Mbit/s, …; "" for a count
	Better int    `json:"better"` // 1: more is better, -1: less is better, 0: neither
	// Beside is set if the metric only stands beside another, by which systems are compared.
	Beside bool `json:"beside,omitempty"`
}

// Kinds of scenarios. Scenarios of a kind have the same metrics.
const (
	KindDelay      = "delay"
	KindCPU        = "cpu"
	KindMemory     = "memory"
	KindSyscalls   = "syscalls"
	KindProfile    = "profile"
	KindCapacity   = "capacity"
	KindCongestion = "congestion"
	KindBystander  = "bystander"
	KindChain      = "chain"
	KindConference = "conference"
	KindClients    = "clients"
	KindRTSP       = "rtsp"
	KindForwarding = "forwarding" // of sluice-lab forwarding: its systems are monitors
)

// Kinds returns the kinds of scenarios of sluice-lab bench in display order.
func Kinds() []string {
	return []string{
		KindDelay, KindCPU, KindMemory, KindSyscalls, KindProfile, KindCapacity, KindCongestion, KindBystander,
		KindChain, KindConference, KindClients, KindRTSP,
	}
}

// Scenario is a load under which every system was run.
type Scenario struct {
	Kind   string `json:"kind"` // one of Kinds
	Name   string `json:"name"` // unique in a report, and the same in all reports with these Params
	Title  string `json:"title"`
	Params Params `json:"params"`
	// Runs are in order of time: A B A B …
	Runs []Run `json:"runs"`
	// Summaries has one element for each system that was run, in the order of Report.Systems.
	Summaries []Summary `json:"summaries"`
}

// Params are the parameters of a scenario. Parameters without a meaning for it are zero.
type Params struct {
	Subscribers int     `json:"subscribers,omitempty"`
	Relays      int     `json:"relays,omitempty"`    // one behind the other, in a chain
	Flows       int     `json:"flows,omitempty"`     // that are forwarded
	Load        string  `json:"load,omitempty"`      // what competes for the CPU: idle or hog; a monitor's reports
	Link        string  `json:"link,omitempty"`      // of the subscriber with a bottleneck: constant or step
	Media       string  `json:"media,omitempty"`     // mock
	Rate        float64 `json:"rate,omitempty"`      // of the media or the traffic, Mbit/s
	FrameRate   float64 `json:"frameRate,omitempty"` // frames a second
	Duration    float64 `json:"duration,omitempty"`  // of one run, seconds, without the warm-up
	Warmup      float64 `json:"warmup,omitempty"`    // seconds at the start of a run that do not count
}

// Run is one repetition with one system.
type Run struct {
	System     string `json:"system"`
	Repetition int    `json:"repetition"` // from 1
	// Unusable is the reason why no Summary counts the run, for example that the load generator was the bottleneck; ""
	// for a usable run.
	Unusable string   `json:"unusable,omitempty"`
	Notes    []string `json:"notes,omitempty"` // facts that a reader of the numbers needs

	Metrics       map[string]float64            `json:"metrics,omitempty"`
	Distributions map[string]Distribution       `json:"distributions,omitempty"`
	Breakdowns    map[string]map[string]float64 `json:"breakdowns,omitempty"` // by part: CPU by process, calls by name
	Series        map[string]Series             `json:"series,omitempty"`     // over time
}

// Series is a quantity over time.
type Series struct {
	Time  []float64 `json:"time"` // seconds since the end of the warm-up
	Value []float64 `json:"value"`
}

// Add appends a value.
func (s *Series) Add(at, value float64) {
	s.Time, s.Value = append(s.Time, at), append(s.Value, value)
}

// Summary is all usable runs of a system in a scenario.
type Summary struct {
	System string `json:"system"`
	Runs   int    `json:"runs"` // that are usable
	// Unusable is the reason why there are no numbers, if no run is usable. Notes are its runs' notes, each once.
	Unusable string   `json:"unusable,omitempty"`
	Notes    []string `json:"notes,omitempty"`

	Metrics       map[string]Statistic            `json:"metrics,omitempty"`
	Distributions map[string]Distribution         `json:"distributions,omitempty"` // over the values of all runs
	Breakdowns    map[string]map[string]Statistic `json:"breakdowns,omitempty"`
}

// Kinds returns the kinds of the report's scenarios, in order of appearance.
func (r Report) Kinds() []string {
	var kinds []string
	for _, s := range r.Scenarios {
		if !slices.Contains(kinds, s.Kind) {
			kinds = append(kinds, s.Kind)
		}
	}
	return kinds
}

// OfKind returns the scenarios of a kind.
func (r Report) OfKind(kind string) []Scenario {
	var out []Scenario
	for _, s := range r.Scenarios {
		if s.Kind == kind {
			out = append(out, s)
		}
	}
	return out
}

// Metric returns the description of a name. One that the report does not describe is its own title.
func (r Report) Metric(name string) Metric {
	m, ok := r.Metrics[name]
	if !ok || m.Title == "" {
		m.Title = name
	}
	return m
}

// Subject returns the name of the system that the others are compared with; "" if there is no system.
func (r Report) Subject() string {
	if len(r.Systems) == 0 {
		return ""
	}
	return r.Systems[0].Name
}

// WriteFile writes the report as a results file, with one line for each run.
func (r Report) WriteFile(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	b = within.ReplaceAll(b, []byte("$1"))
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// Validate returns an error if the parts of the report contradict each other.
func (r Report) Validate() error {
	names := map[string]bool{}
	for _, s := range r.Systems {
		if s.Name == "" || names[s.Name] {
			return fmt.Errorf("system %q: a name must be unique and not empty", s.Name)
		}
		names[s.Name] = true
	}
	seen := map[string]bool{}
	for _, s := range r.Scenarios {
		if s.Name == "" || seen[s.Name] {
			return fmt.Errorf("scenario %q: a name must be unique and not empty", s.Name)
		}
		seen[s.Name] = true
		if err := s.validate(names); err != nil {
			return fmt.Errorf("scenario %q: %w", s.Name, err)
		}
	}
	return nil
}

// Standing compares the subject with the other systems.
func (r Report) Standing() Standing {
	var st Standing
	for _, s := range r.Scenarios {
		metrics := s.Summary(r.Subject()).Metrics
		for _, name := range slices.Sorted(maps.Keys(metrics)) {
			if m := r.Metric(name); m.Better != 0 && !m.Beside {
				st.compare(r, s, name, m)
			}
		}
	}
	slices.SortStableFunc(st.Behind, func(a, b Behind) int { return cmp.Compare(b.Factor, a.Factor) })
	return st
}

// NotRun is Summary.Unusable of a system in a scenario that it takes no part in.
const NotRun = "not run"

// Summary returns the summary of a system.
func (s Scenario) Summary(system string) Summary {
	i := slices.IndexFunc(s.Summaries, func(sum Summary) bool { return sum.System == system })
	if i < 0 {
		return Summary{System: system, Unusable: NotRun}
	}
	return s.Summaries[i]
}

// noticeable is the part of a core, in percent, from which the use by unrelated processes is noted.
const noticeable = 20

// Noise returns a note about the CPU time of unrelated processes during the runs; "" if it was little.
func (s Summary) Noise() string {
	if others := s.Metrics["others"].Max; others >= noticeable {
		return fmt.Sprintf("unrelated processes used up to %.0f%% of a core", others)
	}
	return ""
}

// OffloadList returns the offload features and their states as text.
func (m Machine) OffloadList() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m.Offloads)) {
		list = append(list, name+" "+m.Offloads[name])
	}
	return strings.Join(list, ", ")
}

// String returns the processor, the number of cores and the kernel.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, Linux %s", m.CPU, m.Cores, m.Kernel)
}

func (s Scenario) validate(systems map[string]bool) error {
	for _, r := range s.Runs {
		if !systems[r.System] {
			return fmt.Errorf("a run of %q, which is not among the systems", r.System)
		}
		for name, d := range r.Distributions {
			if err := d.validate(); err != nil {
				return fmt.Errorf("distribution %q: %w", name, err)
			}
		}
		for name, series := range r.Series {
			if len(series.Time) != len(series.Value) {
				return fmt.Errorf("series %q has %d times for %d values", name, len(series.Time), len(series.Value))
			}
		}
	}
	summarized := map[string]bool{}
	for _, sum := range s.Summaries {
		if !systems[sum.System] || summarized[sum.System] {
			return fmt.Errorf("a summary of %q, which is not among the systems or comes twice", sum.System)
		}
		summarized[sum.System] = true
		for name, d := range sum.Distributions {
			if err := d.validate(); err != nil {
				return fmt.Errorf("distribution %q: %w", name, err)
			}
		}
	}
	return nil
}

// within matches line breaks inside of a run, which is four levels deep. Strings have none.
var within = regexp.MustCompile(`\n(?: {5,}| {4}([\]}]))`)
