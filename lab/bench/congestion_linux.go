package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/lab"
	"sluice/lab/bench/load"
	"sluice/lab/bench/pathprofile"
	"sluice/lab/bench/playback"
	"sluice/lab/bench/replay"
	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
	"sluice/lab/bench/trial"
	"sluice/lab/bench/video"
)

// bottlenecks are the paths behind which a subscriber each is measured. They share a trial, and the trial has one more
// subscriber, their neighbour, without a bottleneck. In each repetition, the paths change at other times. Behind
// ladderPaths, subscribers have several renditions, among which the relay chooses.
var (
	bottlenecks = []string{"constant", "step", "sawtooth", "lte", "loss", "bulk"}
	ladderPaths = []string{"constant", "step", "sawtooth"}
)

// How many times as long as other runs one with bottlenecks is: a profile needs time to change, and a rendition that
// was too good is tried again half a minute later.
const (
	congestionPeriods = 4
	ladderPeriods     = 10
)

// congestionPlans are bottlenecks without and with a ladder. The variants without the fast path and without a policy
// have no ladder: they choose by the same rule. A brief run of one would show nothing.
func (r *runner) congestionPlans() []plan {
	plans := []plan{r.congestionPlan(bottlenecks, congestionPeriods, false)}
	if !r.Brief {
		plans = append(plans, r.congestionPlan(ladderPaths, ladderPeriods, true))
		plans[1].without = []string{system.SlowPath, system.NoDrop}
	}
	return plans
}

func (r *runner) congestionPlan(names []string, periods time.Duration, ladder bool) plan {
	period := periods * max(r.Duration, 6*time.Second)
	if r.Brief {
		period = 6 * time.Second
	}
	p := plan{
		kinds: r.wanted(result.KindCongestion), title: fmt.Sprintf("%d bottlenecks", len(names)),
		length: r.warmup + period + load.Stragglers + runOverhead,
	}
	params, prefix, title := r.withMock(result.Params{Duration: period.Seconds()}, len(names)+1), "", "a bottleneck: "
	if ladder {
		params.Media, prefix, title = "mock ladder", "ladder/", "a ladder: "
		p.title += " with a ladder"
	}
	var paths []pathprofile.Profile
	for _, name := range names {
		path, _ := pathprofile.Find(name)
		if !ladder {
			path.RTT, path.Queue = 0, 0 // the lab has these
		}
		paths = append(paths, path)
		params.Link = path.Name
		p.views = append(p.views, view{prefix + path.Name, title + path.Title, params})
	}
	p.run = func(ctx context.Context, spec system.Spec) ([]*outcome, error) {
		return r.runCongestion(ctx, spec, paths, ladder, period)
	}
	return p
}

// bottleneck is the link of the subscriber behind a bottleneck.
type bottleneck struct {
	host   *lab.Host // of the subscriber
	path   pathprofile.Profile
	points []pathprofile.Point
	media  float64 // bit/s
	begin  time.Time
	made   []replay.Change // since begin
}

func (b *bottleneck) link() *lab.Link { return b.host.Devices[0].Link }

// lowestRate lets one packet pass within the time in which a player shows a frame.
const lowestRate = 16_000

// set sets a rate, as a part of the media's.
func (b *bottleneck) set(part float64) error {
	c := lab.Conditions{
		Rate: max(lab.Rate(part*b.media), lowestRate), Loss: lab.Probability(b.path.Loss), Delay: b.path.RTT,
	}
	c.Queue = time.Duration(b.path.Queue.Seconds() * b.media / float64(c.Rate) * float64(time.Second))
	b.made = append(b.made, replay.Change{At: time.Since(b.begin), Rate: int64(c.Rate)})
	return b.link().Set(lab.ToHost, c)
}

// follow sets the link's rate to each point of the path, from the second on.
func (b *bottleneck) follow(ctx context.Context) error {
	for _, p := range b.points[1:] {
		if err := trial.Sleep(ctx, time.Until(b.begin.Add(p.At))); err != nil {
			return err
		}
		if err := b.set(p.Rate); err != nil {
			return err
		}
	}
	return nil
}

// congestionRun is a trial with a bottleneck for each subscriber but the last.
type congestionRun struct {
	mock        video.Mock
	bottlenecks []*bottleneck
	neighbour   *lab.Host
	bulk        bulkFlow
}

// prepare sets the links to the first points of the paths.
func (c *congestionRun) prepare(
	hosts []*lab.Host, paths []pathprofile.Profile, period time.Duration, seed uint64,
) (err error) {
	c.neighbour = hosts[len(paths)]
	for i, path := range paths {
		b := &bottleneck{
			host: hosts[i], path: path, media: c.mock.Rate + video.Audio.Rate, begin: time.Now(),
			points: path.Rates(period, seed),
		}
		c.bottlenecks = append(c.bottlenecks, b)
		err = errors.Join(err, b.set(b.points[0].Rate))
	}
	return err
}

// follow has the links and the bulk flow follow the paths.
func (c *congestionRun) follow(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, b := range c.bottlenecks {
		b.begin = time.Now()
		if b.path.Bulk {
			if err := c.bulk.start(c.neighbour, b.host); err != nil {
				return errors.Join(err, g.Wait())
			}
		}
		g.Go(func() error { return b.follow(ctx) })
	}
	return g.Wait()
}

// end makes the links as wide as they were.
func (c *congestionRun) end() {
	c.bulk.stop()
	for _, b := range c.bottlenecks {
		_ = b.link().Set(lab.ToHost, lab.Conditions{}) // fails only if the lab has failed
	}
}

// runCongestion gives each subscriber but the last a bottleneck, and with ladder several renditions. It returns an
// outcome for each of them.
func (r *runner) runCongestion(
	ctx context.Context, spec system.Spec, paths []pathprofile.Profile, ladder bool, period time.Duration,
) (outcomes []*outcome, err error) {
	c, ladders := &congestionRun{mock: r.mock()}, 0
	if ladder {
		ladders = len(paths)
	}
	c.mock.Layers = !spec.OneSubgroup
	defer c.end()
	if err := c.prepare(r.stage.Lab.Subscribers, paths, period, r.pathSeed); err != nil {
		return nil, err
	}
	sessions := slices.Repeat([]int{1}, len(paths)+1)
	m, err := r.try(ctx, trial.Setup{
		System: spec, Mock: c.mock, Audio: true, Ladders: ladders, Sessions: sessions, Record: true, Duration: period,
		CutByHosts: true, // a link must not lose a burst as one packet
		During:     c.follow,
	})
	if err != nil {
		return nil, err
	}
	c.bulk.stop()
	from, to := video.DueBetween(c.mock, r.warmup, r.warmup+period)
	to = min(to, m.Published.Objects)
	play := func(host int, fitting func(time.Duration) int) playback.Score {
		got := m.Received[host][0]
		audio := append([]video.Arrival{}, got.Audio...) // not nil, also if none of it has arrived
		return video.Play(c.mock, got.Arrivals, audio, from, to, fitting)
	}
	neighbour := play(len(paths), nil)
	for i, b := range c.bottlenecks {
		o := outcomeOf(m)
		if b.path.Bulk {
			o.Metrics["bulk"] = float64(c.bulk.received) * 8 / 1e6 / time.Since(b.begin).Seconds()
		}
		b.made[0].At = 0
		var fitting func(time.Duration) int
		if ladder {
			fitting = b.fitting(c.mock, period)
		}
		o.addPlayback(play(i, fitting), neighbour)
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// fitting returns the rank of the best rendition that fits the path, by the time since the beginning.
func (b *bottleneck) fitting(best video.Mock, period time.Duration) func(time.Duration) int {
	t := replay.LadderOf(best, period)
	t.Path = b.made
	steps := t.Fitting()
	return func(at time.Duration) int { return steps[min(int(at/replay.FittingStep), len(steps)-1)] }
}
