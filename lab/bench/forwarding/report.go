package forwarding

import (
	"fmt"
	"slices"

	"sluice/lab/bench/result"
)

// metrics describes the numbers of a run.
var metrics = map[string]result.Metric{
	"rate":      {Title: "packets that one CPU forwards", Unit: "Mpps", Better: 1},
	"bits":      {Title: "traffic that one CPU forwards", Unit: "Gbit/s", Better: 1},
	"packet":    {Title: "CPU time to forward a packet", Unit: "ns", Better: -1},
	"forwarder": {Title: "CPU that forwards", Unit: "% of a core", Better: -1},
	"rtts":      {Title: "RTTs that the monitor reported", Unit: "/s", Better: 1},
	"missed":    {Title: "RTTs that the monitor missed", Unit: "%", Better: -1},
	"user":      {Title: "CPU of the monitor's process", Unit: "% of a core", Better: -1},
	"anonymous": {Title: "anonymous memory of the monitor's process", Unit: "MiB", Better: -1},
	"resident":  {Title: "resident memory of the monitor's process", Unit: "MiB", Better: -1},
	"others":    {Title: "CPU of unrelated processes", Unit: "% of a core"},
}

// load is the traffic that a scenario forwards.
type load struct {
	flows int
	mode  Mode
	rate  uint64 // bit/s; 0: as fast as one CPU can
}

// loads returns the loads in the order of the report.
func (c Config) loads() (all []load) {
	rates := []uint64{0}
	if c.Rate != 0 {
		rates = append(rates, c.Rate)
	}
	for _, rate := range rates {
		for _, mode := range c.Modes {
			for _, n := range c.Flows {
				all = append(all, load{n, mode, rate})
			}
		}
	}
	return all
}

// scenario returns the scenario of a load, without runs.
func (c Config) scenario(l load) result.Scenario {
	reported, flows := string(l.mode), fmt.Sprintf("%d flows", l.flows)
	if l.rate != 0 {
		reported += fmt.Sprintf(", %g Mbit/s", float64(l.rate)/1e6)
	}
	if c.OneCPU {
		reported += ", one CPU"
	}
	if c.EndHosts {
		reported += ", end hosts"
	}
	if l.flows == 1 {
		flows = "1 flow"
	}
	return result.Scenario{
		Kind: result.KindForwarding, Name: fmt.Sprintf("%s/%d/%s", result.KindForwarding, l.flows, reported),
		Title: flows + ", " + reported,
		Params: result.Params{
			Flows: l.flows, Load: reported, Rate: float64(l.rate) / 1e6, Duration: c.Duration.Seconds(),
		},
	}
}

// summarize adds a summary for each of the systems that have runs: a monitor may lack the mode.
func summarize(s *result.Scenario, systems []string) {
	for _, name := range systems {
		others := func(r result.Run) bool { return r.System != name }
		if runs := slices.DeleteFunc(slices.Clone(s.Runs), others); len(runs) > 0 {
			s.Summaries = append(s.Summaries, result.Summarize(name, runs))
		}
	}
}
