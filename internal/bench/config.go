package bench

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/internal/lab"
)

// Config says what to measure. Program, Sluice and Systems are required; the zero value of all else is the default.
type Config struct {
	// Program is sluice-lab: Program bench-load JSON has to call Load.
	Program string
	Sluice  string // the program sluice, which is measured
	Systems []Spec

	Kinds       []string      // of scenarios; default: all
	Subscribers []int         // of delay, CPU, memory; default: 1, 10, 50, 200
	Repetitions int           // default: 3
	Duration    time.Duration // of a run, without Warmup; default: 6 s
	Warmup      time.Duration // discarded; default: 2 s, one group of mock video
	// MaxCapacity is the largest number of subscribers that is tried; default: 400.
	MaxCapacity int
	// Rate is that of the mock video; default: 2 Mbit/s.
	Rate lab.Rate
	// Clip is a file with real video, which is measured besides mock video; "" is none.
	Clip string
	// Brief leaves out what takes long and adds detail only: the step of a bottleneck, and precision of the capacity.
	Brief bool
	Seed  uint64 // of the lab; default: 1

	Commit  string   // for the Report
	Command []string // for the Report
	// Progress is told what happens, a line each.
	Progress func(line string)
}

const (
	// maxRun bounds Duration and Warmup: packets are kept in memory.
	maxRun         = 10 * time.Minute
	maxRepetitions = 100

	defaultRate lab.Rate = 2_000_000
)

func (c Config) withDefaults() Config {
	if len(c.Kinds) == 0 {
		c.Kinds = Kinds()
	}
	if len(c.Subscribers) == 0 {
		c.Subscribers = []int{1, 10, 50, 200}
	}
	c.Repetitions = orDefault(c.Repetitions, 3)
	c.Duration = orDefault(c.Duration, 6*time.Second)
	c.Warmup = orDefault(c.Warmup, 2*time.Second)
	c.MaxCapacity = orDefault(c.MaxCapacity, 400)
	c.Rate = orDefault(c.Rate, defaultRate)
	c.Seed = orDefault(c.Seed, 1)
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// Validate returns what is wrong with a configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.Program == "" || c.Sluice == "" || len(c.Systems) == 0 {
		return errors.New("a bench needs the programs sluice-lab and sluice, and at least one relay")
	}
	var names []string
	for _, s := range c.Systems {
		if err := s.validate(); err != nil {
			return err
		}
		if slices.Contains(names, s.Name) {
			return fmt.Errorf("two relays are named %s", s.Name)
		}
		names = append(names, s.Name)
	}
	for _, k := range c.Kinds {
		if !slices.Contains(Kinds(), k) {
			return fmt.Errorf("there is no scenario %q; there are %s", k, strings.Join(Kinds(), ", "))
		}
	}
	for _, n := range append(slices.Clone(c.Subscribers), c.MaxCapacity) {
		if n < 1 || n > lab.MaxSubscribers {
			return fmt.Errorf("%d subscribers: it has to be 1 to %d", n, lab.MaxSubscribers)
		}
	}
	if c.Repetitions < 1 || c.Repetitions > maxRepetitions {
		return fmt.Errorf("%d repetitions: it has to be 1 to %d", c.Repetitions, maxRepetitions)
	}
	if c.Duration < time.Second || c.Duration > maxRun || c.Warmup < 0 || c.Warmup > maxRun {
		return fmt.Errorf("runs of %v after %v: it has to be 1 s to %v after at most as long", c.Duration, c.Warmup, maxRun)
	}
	return c.mock().validate()
}

// mock is the video that is measured.
func (c Config) mock() Mock { return Mock{Rate: float64(c.Rate)}.withDefaults() }

func (c Config) mockParams(subscribers int) Params {
	m := c.mock()
	return Params{Subscribers: subscribers, Media: "mock", Rate: m.Rate / 1e6, FrameRate: m.FrameRate}
}

// scenario is what a plan needs for the Report.
func (c Config) scenario(kind, name, title string, p Params) Scenario {
	if p.Media == "mock" && c.Rate != defaultRate {
		name += fmt.Sprintf("/%gMbit", p.Rate)
		title += fmt.Sprintf(", %g Mbit/s", p.Rate)
	}
	p.Duration, p.Warmup = orDefault(p.Duration, c.Duration.Seconds()), c.Warmup.Seconds()
	return Scenario{Kind: kind, Name: kind + "/" + name, Title: title, Params: p}
}

// clipName is how the clip is called in a Report.
func (c Config) clipName() string { return filepath.Base(c.Clip) }
