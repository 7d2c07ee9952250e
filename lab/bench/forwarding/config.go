package forwarding

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"sluice/internal/bounds"
)

// Config configures Measure. Monitors are required; other zero values are the defaults.
type Config struct {
	Monitors    []Monitor     // the others are compared with the first
	Flows       []int         // default: 1, 10, 100, 1,000
	Modes       []Mode        // default: all
	Rate        uint64        // bit/s of the runs that do not forward as fast as they can; 0: there are none
	OneCPU      bool          // monitors have the CPU that forwards; otherwise all others
	EndHosts    bool          // packets come from TCP connections of two hosts, which share this CPU, too
	Repetitions int           // default: 3
	Duration    time.Duration // of a run; default: 2 s
	// Settle is how long a monitor has for its last reports before it is stopped. Default: 1.2 s, more than a second.
	Settle   time.Duration
	Progress func(line string)
}

const (
	maxFlows       = 60_000 // each has a port
	maxRepetitions = 100
	maxDuration    = time.Minute
	minRate        = 1_000_000
	maxRate        = 100_000_000_000
)

func (c Config) withDefaults() Config {
	if len(c.Flows) == 0 {
		c.Flows = []int{1, 10, 100, 1000}
	}
	if len(c.Modes) == 0 {
		c.Modes = Modes()
	}
	c.Repetitions = cmp.Or(c.Repetitions, 3)
	c.Duration = cmp.Or(c.Duration, 2*time.Second)
	c.Settle = cmp.Or(c.Settle, 1200*time.Millisecond)
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	c.Monitors = slices.Clone(c.Monitors)
	return c
}

// Validate returns an error if the configuration cannot be measured. It names flags of sluice-lab forwarding.
func (c Config) Validate() error {
	c = c.withDefaults()
	if len(c.Monitors) == 0 {
		return errors.New("there is no monitor to measure")
	}
	for _, m := range c.Modes {
		if err := bounds.OneOf("--mode", string(m), string(Every), string(Sampled), string(Aggregated)); err != nil {
			return err
		}
	}
	for _, n := range c.Flows {
		if err := bounds.Check("--flows", n, 1, maxFlows); err != nil {
			return err
		}
	}
	if c.Rate != 0 {
		if err := bounds.Check("--rate", c.Rate, minRate, maxRate); err != nil {
			return err
		}
	}
	if c.EndHosts && c.Rate != 0 {
		return errors.New("with --end-hosts, --rate must be 0: TCP chooses the rate")
	}
	return cmp.Or(
		bounds.Check("--repetitions", c.Repetitions, 1, maxRepetitions),
		bounds.Check("--duration", c.Duration, 10*time.Millisecond, maxDuration))
}
