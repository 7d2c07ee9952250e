// Package pathprofile describes paths whose rate and loss change over time. The benchmark makes them in its lab, and
// the replay of traces computes them.
//
// Rates are parts of the media's rate, so that one profile fits any media.
package pathprofile

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Profile is a path over time.
type Profile struct {
	Name, Title string
	RTT         time.Duration // without the wait in the queue
	Queue       time.Duration // size of the bottleneck's queue: the time that it takes at the media's rate
	Loss        float64       // of each packet, from 0 to 1
	Bulk        bool          // another host's bulk flow shares the bottleneck
	// rates returns the rates over a period.
	rates func(period time.Duration, seed uint64) []Point
}

// Point is the rate of the bottleneck from a time on, as a part of the media's rate. 0: nothing passes.
type Point struct {
	At   time.Duration
	Rate float64
}

// maxLate is the length of most groups of video.
const maxLate = 2 * time.Second

// Rates returns the rates over a period, the first from its begin on. They are the same for the same seed. With another
// seed, all changes come at other times, by up to maxLate: how many pictures a change costs depends on where in a group
// it comes, so one seed is one sample.
func (p Profile) Rates(period time.Duration, seed uint64) []Point {
	points := p.rates(period, seed)
	late := time.Duration(rand.New(rand.NewPCG(seed, 's')).Int64N(maxLate.Milliseconds())) * time.Millisecond
	for i := range points[1:] {
		if points[i+1].At += late; points[i+1].At >= period {
			return points[:i+1]
		}
	}
	return points
}

const (
	commonRTT   = 40 * time.Millisecond
	commonQueue = 200 * time.Millisecond
)

var all = []Profile{
	{Name: "wide", Title: "400 % of the media's rate", rates: constant(4)},
	{Name: "constant", Title: "60 % of the media's rate", rates: constant(.6)},
	{Name: "step", Title: "150 %, then 50 %, then 150 % of the media's rate", rates: steps(1.5, .5, 1.5)},
	{Name: "sawtooth", Title: "from 150 down to 40 % of the media's rate, again and again", rates: sawtooth},
	{Name: "lte", Title: "like LTE, about 120 % of the media's rate, with fades", rates: lte},
	{Name: "loss", Title: "150 % of the media's rate, 1 % random loss", Loss: .01, rates: constant(1.5)},
	{Name: "bulk", Title: "200 % of the media's rate, shared with a bulk flow", Bulk: true, rates: constant(2)},
	{Name: "bufferbloat", Title: "80 % of the media's rate, a queue of 2 s", Queue: 2 * time.Second,
		rates: constant(.8)},
	{Name: "satellite", Title: "90 % of the media's rate, an RTT of 500 ms", RTT: 500 * time.Millisecond,
		rates: constant(.9)},
	{Name: "outage", Title: "150 % of the media's rate, and nothing for 1.5 s of each 8 s", rates: outage},
}

// All returns the profiles that are built in.
func All() []Profile {
	profiles := slices.Clone(all)
	for i := range profiles {
		p := &profiles[i]
		p.RTT, p.Queue = cmp.Or(p.RTT, commonRTT), cmp.Or(p.Queue, commonQueue)
	}
	return profiles
}

// Find returns a profile that is built in.
func Find(name string) (Profile, bool) {
	profiles := All()
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return profiles[i], true
}

// Names returns the names of the profiles that are built in.
func Names() (names []string) {
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

func constant(rate float64) func(time.Duration, uint64) []Point { return steps(rate) }

// steps gives each rate the same part of the period.
func steps(rates ...float64) func(time.Duration, uint64) []Point {
	return func(period time.Duration, _ uint64) (points []Point) {
		for i, r := range rates {
			points = append(points, Point{time.Duration(i) * period / time.Duration(len(rates)), r})
		}
		return points
	}
}

// sawtooth falls in steps, and begins again.
func sawtooth(period time.Duration, _ uint64) (points []Point) {
	const tooth, step, from, to = 5 * time.Second, 250 * time.Millisecond, 1.5, .4
	for at := time.Duration(0); at < period; at += step {
		points = append(points, Point{at, from + (to-from)*float64(at%tooth)/float64(tooth-step)})
	}
	return points
}

func outage(period time.Duration, _ uint64) (points []Point) {
	const every, length = 8 * time.Second, 1500 * time.Millisecond
	for at := time.Duration(0); at < period; at += every {
		points = append(points, Point{at, 1.5}, Point{at + every/2, 0}, Point{at + every/2 + length, 1.5})
	}
	return points
}

// lte is a model of a mobile network. The logarithm of the rate wanders around the median's and returns to it (an
// Ornstein-Uhlenbeck process), as signal and load of a cell do. A handover or a shadow is a fade, which comes at random
// times and leaves little for a moment.
func lte(period time.Duration, seed uint64) (points []Point) {
	const (
		step        = 100 * time.Millisecond
		median      = 1.2
		deviation   = .45 // of the logarithm
		correlation = 2 * time.Second
		fadeEvery   = 8 * time.Second // on average
		fadeRate    = .1              // of the rate otherwise
		fadeMin     = 300 * time.Millisecond
		fadeMax     = 1200 * time.Millisecond
		lowest      = .05
		highest     = 4
	)
	rng := rand.New(rand.NewPCG(seed, 'l'))
	keep := math.Exp(-step.Seconds() / correlation.Seconds())
	x, faded := rng.NormFloat64()*deviation, time.Duration(0) // until then
	for at := time.Duration(0); at < period; at += step {
		rate := median * math.Exp(x)
		if at >= faded && rng.Float64() < step.Seconds()/fadeEvery.Seconds() {
			faded = at + fadeMin + time.Duration(rng.Int64N(int64(fadeMax-fadeMin)))
		}
		if at < faded {
			rate *= fadeRate
		}
		points = append(points, Point{at, min(max(rate, lowest), highest)})
		x = keep*x + math.Sqrt(1-keep*keep)*deviation*rng.NormFloat64()
	}
	return points
}
