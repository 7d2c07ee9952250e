package replay

import (
	"maps"
	"slices"
	"time"

	"sluice/claim"
	"sluice/congestion"
	"sluice/lab/bench/playback"
	"sluice/lab/bench/result"
	"sluice/media"
)

// Policy is a drop policy by its name.
type Policy struct {
	Name  string
	New   func() media.DropPolicy
	Admit claim.Rule // an operator's; nil: the built-in one
	// Oracle, if it is not 0, stands for a policy that knows the path from the begin to the end, and sends only objects
	// that are not older than this on arrival. It has no congestion controller.
	Oracle  time.Duration
	Ordered bool // the oracle sends more important objects first, as MoQT has it
}

// Controller is a congestion controller by its name.
type Controller struct {
	Name string
	New  func(mtu int) congestion.Controller
}

// seeded returns New, with random numbers that are the same each time.
func (c Controller) seeded(seed uint64) func(mtu int) congestion.Controller {
	return func(mtu int) congestion.Controller {
		made := c.New(mtu)
		if s, ok := made.(congestion.Seeder); ok {
			s.Seed(seed)
		}
		return made
	}
}

// Policies returns the policies that are built in, the relay's default first.
func Policies() []Policy {
	return []Policy{
		{Name: "bytes", New: func() media.DropPolicy { return new(media.Budget) }},
		{Name: "none", New: func() media.DropPolicy { return nil }},
		{Name: "priority", New: func() media.DropPolicy { return new(media.PriorityDrop) }},
	}
}

// Oracles returns the subjects that policies are compared with. For the first and the last, an object is in time if it
// arrives within [playback.Playout].
func Oracles() []Policy {
	return []Policy{
		{Name: "oracle", Oracle: playback.Playout},
		{Name: "oracle-400ms", Oracle: 400 * time.Millisecond},
		{Name: "oracle-ordered", Oracle: playback.Playout, Ordered: true},
	}
}

// Controllers returns the congestion controllers that are built in, the relay's default first, and then those that only
// the laboratory has.
func Controllers() []Controller {
	all := []Controller{{"cubic", congestion.NewCubic}}
	for _, name := range slices.Sorted(maps.Keys(congestion.Controllers)) {
		if name != all[0].Name {
			all = append(all, Controller{name, congestion.Controllers[name]})
		}
	}
	return append(all, Controller{"copa", newCopa}, Controller{"gcc", newGCC})
}

// Subject is a policy and a controller to try.
type Subject struct {
	Policy     Policy
	Controller Controller
}

// Name returns the names of both.
func (s Subject) Name() string {
	if s.Policy.Oracle != 0 {
		return s.Policy.Name
	}
	return s.Policy.Name + "/" + s.Controller.Name
}

// Outcome is how well a viewer would have seen a trace, and with how many packets.
type Outcome struct {
	playback.Score
	Packets int // that the sender sent
	Lost    int // packets that the path lost, a bulk flow's included
}

// Run replays a trace. The outcome is the same whenever it is called with the same arguments.
func Run(t *Trace, subject Subject, seed uint64) (Outcome, error) {
	if limit := subject.Policy.Oracle; limit != 0 {
		return runOracle(t, limit, subject.Policy.Ordered), nil
	}
	s, err := newSimulation(t, subject, seed)
	if err == nil {
		err = s.run()
	}
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{playback.Play(s.frames(), t.length), s.sent, s.path.lost}, nil
}

// run returns the outcome as a run of the report.
func (o *Outcome) run(subject string, repetition int) result.Run {
	r := result.Run{
		System: subject, Repetition: repetition,
		Metrics: make(map[string]float64), Series: make(map[string]result.Series),
		Distributions: map[string]result.Distribution{playback.Age: result.NewDistribution(slices.Clone(o.Ages))},
	}
	o.AddTo(&r)
	r.Metrics["packets"] = float64(o.Packets)
	return r
}
