package lab

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sluice/internal/bounds"
)

// Limits of Conditions.
const (
	// MaxDelay, of Delay, Queue and Hold, bounds the memory of the packets under way: a second at 1 Gbit/s is 125 MB.
	MaxDelay = 10 * time.Second
	// MaxReorderGap is more than any loss detection waits for.
	MaxReorderGap = 64
	// MaxRate is below the largest rate of the kernel's token bucket, which has 32 bits for bytes per second.
	MaxRate Rate = 32_000_000_000
	// MinRate lets one full Ethernet frame through every 1.5 s.
	MinRate Rate = 8_000

	// DefaultQueue is Queue where it is 0.
	DefaultQueue = 50 * time.Millisecond

	// the last packet of a burst must not wait for the next burst: no path does that
	defaultHold = 10 * time.Millisecond
	// RFC 9002 §6.1.1: kPacketThreshold, the smallest gap that causes a spurious loss
	defaultReorderGap = 3
)

// Conditions describe how one direction of a link treats packets. The zero value is a perfect link.
//
// Broadcast, multicast, ARP and IPv6 neighbour discovery are exempt from all but Rate, so that a link with Loss 1 is a
// path that loses everything, not an unplugged cable (see Link.SetUp), and so that the n-th packet of a seeded run is
// always the same packet.
type Conditions struct {
	Rate       Rate          // of Ethernet frames; 0 is unlimited
	Queue      time.Duration // how long a packet may wait for Rate before it is dropped; 0 is 50 ms
	Delay      time.Duration // one way; at most MaxDelay
	Loss       Probability   // of each packet
	Mark       Probability   // of each packet with an ECN mark that is not lost: it is marked as congested (ECN-CE)
	Duplicate  Probability   // of each packet that is not lost
	Reorder    Probability   // of each packet that is not lost: the next ReorderGap packets overtake it
	ReorderGap int           // 1 to MaxReorderGap; 0 is 3
	Hold       time.Duration // how long a reordered packet waits to be overtaken; at most MaxDelay; 0 is 10 ms
}

// Rate is a number of bits per second.
type Rate uint64

// Probability is a number from 0 to 1.
type Probability float64

// keys are the keys that ParseConditions accepts.
const keys = "rate, queue, delay, loss, mark, duplicate, reorder, gap, hold"

// ParseConditions reads the form that String writes: "rate=3mbit,queue=50ms,delay=20ms,loss=2%,mark=1%,
// duplicate=0.1%,reorder=1%,gap=3,hold=10ms", every part optional. An empty string or "clean" is a perfect link.
func ParseConditions(s string) (Conditions, error) {
	var c Conditions
	if s == "" || s == "clean" {
		return c, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return Conditions{},
				fmt.Errorf("%q: must be KEY=VALUE, with a KEY of %s", part, keys)
		}
		if err := c.set(strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return Conditions{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return c, c.validate()
}

func (c *Conditions) set(key, value string) (err error) {
	switch key {
	case "rate":
		c.Rate, err = ParseRate(value)
	case "queue":
		c.Queue, err = time.ParseDuration(value)
	case "delay":
		c.Delay, err = time.ParseDuration(value)
	case "loss":
		c.Loss, err = ParseProbability(value)
	case "mark":
		c.Mark, err = ParseProbability(value)
	case "duplicate":
		c.Duplicate, err = ParseProbability(value)
	case "reorder":
		c.Reorder, err = ParseProbability(value)
	case "gap":
		c.ReorderGap, err = strconv.Atoi(value)
	case "hold":
		c.Hold, err = time.ParseDuration(value)
	default:
		err = fmt.Errorf("unknown, must be one of %s", keys)
	}
	return err
}

// String returns the form that ParseConditions reads.
func (c Conditions) String() string {
	var parts []string
	add := func(key string, set bool, value any) {
		if set {
			parts = append(parts, fmt.Sprintf("%s=%v", key, value))
		}
	}
	add("rate", c.Rate != 0, c.Rate)
	add("queue", c.Queue != 0, c.Queue)
	add("delay", c.Delay != 0, c.Delay)
	add("loss", c.Loss != 0, c.Loss)
	add("mark", c.Mark != 0, c.Mark)
	add("duplicate", c.Duplicate != 0, c.Duplicate)
	add("reorder", c.Reorder != 0, c.Reorder)
	add("gap", c.ReorderGap != 0, c.ReorderGap)
	add("hold", c.Hold != 0, c.Hold)
	if parts == nil {
		return "clean"
	}
	return strings.Join(parts, ",")
}

// MarshalText returns String.
func (c Conditions) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is ParseConditions.
func (c *Conditions) UnmarshalText(text []byte) (err error) {
	*c, err = ParseConditions(string(text))
	return err
}

func (c Conditions) validate() error {
	if c.Rate != 0 {
		if err := bounds.Check("rate", c.Rate, MinRate, MaxRate); err != nil {
			return err
		}
	}
	return errors.Join(
		bounds.Check("queue", c.Queue, 0, MaxDelay),
		bounds.Check("delay", c.Delay, 0, MaxDelay),
		bounds.Check("hold", c.Hold, 0, MaxDelay),
		bounds.Check("loss", c.Loss, 0, 1),
		bounds.Check("mark", c.Mark, 0, 1),
		bounds.Check("duplicate", c.Duplicate, 0, 1),
		bounds.Check("reorder", c.Reorder, 0, 1),
		bounds.Check("gap", c.ReorderGap, 0, MaxReorderGap))
}

// needsWire reports whether packets must wait in user space.
func (c Conditions) needsWire() bool { return c.Delay > 0 || c.Reorder > 0 }

var rateUnits = []struct {
	suffix string
	bits   Rate
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// ParseRate reads a number with one of the units bit, kbit, mbit and gbit (per second).
func ParseRate(s string) (Rate, error) {
	lower := strings.ToLower(s)
	for _, unit := range rateUnits {
		number, ok := strings.CutSuffix(lower, unit.suffix)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(number, 64)
		if bits := f * float64(unit.bits); err == nil && bits >= 0 && bits <= float64(MaxRate) {
			return Rate(math.Round(bits)), nil
		}
		break
	}
	return 0, fmt.Errorf("%q: must be a rate such as 3mbit (bit, kbit, mbit, gbit; at most %v)", s, MaxRate)
}

// String returns the form that ParseRate reads.
func (r Rate) String() string {
	for _, unit := range rateUnits {
		if r >= unit.bits {
			return strconv.FormatFloat(float64(r)/float64(unit.bits), 'f', -1, 64) + unit.suffix
		}
	}
	return "0bit"
}

// ParseProbability reads "2%" or "0.02".
func ParseProbability(s string) (Probability, error) {
	number, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if p := Probability(f); err == nil && p.valid() {
		return p, nil
	}
	return 0, fmt.Errorf("%q: must be a probability such as 2%% or 0.02", s)
}

// String returns the form that ParseProbability reads back exactly.
func (p Probability) String() string {
	if percent := strconv.FormatFloat(float64(p)*100, 'f', -1, 64) + "%"; len(percent) < 8 {
		if back, err := ParseProbability(percent); err == nil && back == p {
			return percent
		}
	}
	return strconv.FormatFloat(float64(p), 'f', -1, 64)
}

func (p Probability) valid() bool { return p >= 0 && p <= 1 }

// scaled returns p in units of 2^-32, to compare with a 32-bit random number.
func (p Probability) scaled() uint64 { return uint64(math.Round(float64(p) * (1 << 32))) }
