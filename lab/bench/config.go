package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/bounds"
	"sluice/lab"
	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
	"sluice/lab/bench/trial"
	"sluice/lab/bench/video"
)

// RunConfig configures Measure. Programs and Systems are required; zero values of the other fields mean the defaults.
type RunConfig struct {
	Programs trial.Programs
	Systems  []system.Spec

	Kinds       []string      // of scenarios; default: all that use MoQT with the load generators' clients
	Subscribers []int         // of delay, CPU, memory; default: 1, 10, 50, 200, or if Brief 1, 10
	Repetitions int           // default: 3, or if Brief 1
	Duration    time.Duration // of a run, without its warm-up; default: 6 s, or if Brief 3 s
	// Rate is the rate of the mock video; default: 2 Mbit/s.
	Rate lab.Rate
	// Clients are for the scenarios with programs as clients: Init is the init segment of their video.
	Clients []system.Clients
	Init    []byte
	// Brief leaves out slow details: a bottleneck that changes, a ladder, and a precise capacity.
	Brief bool

	warmup         time.Duration // before the measured period: one group of mock video, if not Brief
	maxCapacity    int           // the largest number of subscribers that is tried
	capacityPeriod time.Duration // two groups, if not Brief: with its key frame, p99 means the same as in other runs

	Seed uint64 // of the lab; default: 1
	// Machines are the machines to use instead of a lab; nil is a lab. Hosts describes them for the report.
	Machines *trial.Machines
	Hosts    []result.Host

	Commit  string   // for the report
	Command []string // for the report
	// Progress is called with a line for each step.
	Progress func(line string) `json:"-"`
}

const (
	// maxRun bounds Duration: packets are kept in memory.
	maxRun         = 10 * time.Minute
	maxRepetitions = 100
	maxSubscribers = 10_000

	defaultRate lab.Rate = 2_000_000
)

func (c RunConfig) withDefaults() RunConfig {
	if len(c.Kinds) == 0 {
		others := []string{result.KindProfile, result.KindClients, result.KindRTSP}
		c.Kinds = slices.DeleteFunc(c.possibleKinds(), func(k string) bool { return slices.Contains(others, k) })
	}
	subscribers, repetitions, duration := []int{1, 10, 50, 200}, 3, 6*time.Second
	c.warmup, c.maxCapacity, c.capacityPeriod = 2*time.Second, 400, 4*time.Second
	if c.Brief {
		subscribers, repetitions, duration = []int{1, 10}, 1, 3*time.Second
		c.warmup, c.maxCapacity, c.capacityPeriod = time.Second, 100, 2*time.Second
	}
	if len(c.Subscribers) == 0 {
		c.Subscribers = subscribers
	}
	c.Repetitions, c.Duration = cmp.Or(c.Repetitions, repetitions), cmp.Or(c.Duration, duration)
	c.Rate = cmp.Or(c.Rate, defaultRate)
	c.Seed = cmp.Or(c.Seed, 1)
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}

// needLab are the kinds of scenarios that only a lab has: a bottleneck is a link of the lab, only there it is known
// which processor handles what, only there are several relays, other clients, and all ports for RTSP.
var needLab = []string{result.KindCongestion, result.KindBystander, result.KindChain, result.KindConference,
	result.KindClients, result.KindRTSP}

// possibleKinds returns the kinds of scenarios that can be measured.
func (c RunConfig) possibleKinds() []string {
	kinds := result.Kinds()
	if c.Machines != nil {
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return slices.Contains(needLab, k) })
	}
	return kinds
}

// Validate returns an error if the configuration cannot be measured.
func (c RunConfig) Validate() error {
	c = c.withDefaults()
	if c.Programs.Sluice == "" || c.Programs.Generator == "" || len(c.Systems) == 0 {
		return errors.New("a bench needs the programs sluice-lab and sluice, and at least one relay")
	}
	if err := c.validateSystems(); err != nil {
		return err
	}
	for _, k := range c.Kinds {
		if !slices.Contains(result.Kinds(), k) {
			return fmt.Errorf("there is no scenario %q; there are %s", k, strings.Join(result.Kinds(), ", "))
		}
		if !slices.Contains(c.possibleKinds(), k) {
			return fmt.Errorf("the scenario %s needs a lab: with --hosts there are %s", k,
				strings.Join(c.possibleKinds(), ", "))
		}
	}
	for _, n := range c.Subscribers {
		if err := bounds.Check("--subscribers", n, 1, maxSubscribers); err != nil {
			return err
		}
	}
	err := errors.Join(
		bounds.Check("--repetitions", c.Repetitions, 1, maxRepetitions),
		bounds.Check("--duration", c.Duration, time.Second, maxRun))
	if err != nil {
		return err
	}
	return c.mock().Validate()
}

func (c RunConfig) validateSystems() error {
	var names []string
	for _, s := range c.Systems {
		if err := s.Validate(); err != nil {
			return err
		}
		if slices.Contains(names, s.Name) {
			return fmt.Errorf("two relays are named %s", s.Name)
		}
		names = append(names, s.Name)
	}
	return nil
}

// mock returns the video of the runs.
func (c RunConfig) mock() video.Mock { return video.Mock{Rate: float64(c.Rate)}.WithDefaults() }

// withMock adds the parameters of runs with mock video.
func (c RunConfig) withMock(p result.Params, subscribers int) result.Params {
	m := c.mock()
	p.Subscribers, p.Media, p.Rate, p.FrameRate = subscribers, "mock", m.Rate/1e6, m.FrameRate
	return p
}

// scenario returns a scenario without runs.
func (c RunConfig) scenario(kind, name, title string, p result.Params) result.Scenario {
	if strings.HasPrefix(p.Media, "mock") && c.Rate != defaultRate {
		name += fmt.Sprintf("/%gMbit", p.Rate)
		title += fmt.Sprintf(", %g Mbit/s", p.Rate)
	}
	p.Duration, p.Warmup = cmp.Or(p.Duration, c.Duration.Seconds()), c.warmup.Seconds()
	return result.Scenario{Kind: kind, Name: kind + "/" + name, Title: title, Params: p}
}

// wanted returns the kinds to measure.
func (c RunConfig) wanted(kinds ...string) []string {
	return slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !slices.Contains(c.Kinds, k) })
}
