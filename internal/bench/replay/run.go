package replay

import (
	"maps"
	"slices"
	"time"

	"sluice/congestion"
	"sluice/internal/bench/playback"
	"sluice/media"
)

// Policy is a drop policy by its name.
type Policy struct {
	Name string
	New  func() media.DropPolicy
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
		{"bytes", func() media.DropPolicy { return new(media.Budget) }},
		{"none", func() media.DropPolicy { return nil }},
		{"priority", func() media.DropPolicy { return new(media.PriorityDrop) }},
	}
}

// Controllers returns the congestion controllers that are built in, the relay's default first.
func Controllers() []Controller {
	all := []Controller{{"cubic", congestion.NewCubic}}
	for _, name := range slices.Sorted(maps.Keys(congestion.Controllers)) {
		if name != all[0].Name {
			all = append(all, Controller{name, congestion.Controllers[name]})
		}
	}
	return all
}

// Subject is what is tried: a policy and a controller.
type Subject struct {
	Policy     Policy
	Controller Controller
}

// Name returns the names of both.
func (s Subject) Name() string { return s.Policy.Name + "/" + s.Controller.Name }

// Outcome is what a viewer would have seen, and what it took.
type Outcome struct {
	playback.Score
	Packets int // that the sender sent
	Lost    int // packets that the path lost, also those of a bulk flow
}

// Run replays a trace. The outcome is the same whenever it is called with the same arguments.
func Run(t *Trace, subject Subject, seed uint64) (Outcome, error) {
	s, err := newSimulation(t, subject, seed)
	if err == nil {
		err = s.run()
	}
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{playback.Play(s.frames(), t.Length()), s.sent, s.path.lost}, nil
}

// frames returns what became of the objects.
func (s *simulation) frames() []playback.Frame {
	frames := make([]playback.Frame, len(s.trace.Objects))
	index := make(map[place]int)
	for i, o := range s.trace.Objects {
		f := &frames[i]
		*f = playback.Frame{Due: time.Duration(o.At), Published: time.Duration(o.At), Needs: -1, Bytes: o.Size}
		switch {
		case s.trace.Tracks[o.Track].Audio:
			f.Kind = playback.Audio
		case o.Key:
			f.Kind = playback.Key
		}
		if o.Needs != nil {
			f.Needs = index[place{o.Track, o.Group, *o.Needs}]
		}
		if at := s.receiver.arrivedAt[i]; at != 0 {
			f.Arrived, f.At = true, at.Sub(begin)
		}
		index[place{o.Track, o.Group, o.ID}] = i
	}
	return frames
}
