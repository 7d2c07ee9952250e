package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/internal/bench/playback"
	"sluice/internal/bench/result"
	"sluice/internal/bench/system"
	"sluice/internal/bench/trial"
	"sluice/internal/bench/video"
	"sluice/internal/lab"
)

// bottleneck is the rates of a link, as parts of the media's rate. Each lasts the same part of a run.
type bottleneck struct {
	name  string
	rates []float64
}

var bottlenecks = []bottleneck{{"constant", []float64{.6}}, {"step", []float64{1.5, .5, 1.5}}}

// series returns the rate of the link over a run, Mbit/s.
func (b bottleneck) series(mediaRate float64, period time.Duration) result.Series {
	var out result.Series
	each := period.Seconds() / float64(len(b.rates))
	for i, part := range b.rates {
		out.Time = append(out.Time, float64(i)*each, float64(i+1)*each)
		out.Value = append(out.Value, part*mediaRate/1e6, part*mediaRate/1e6)
	}
	return out
}

func (r *runner) congestionPlans() (plans []plan) {
	all := bottlenecks
	if r.Brief {
		all = all[:1]
	}
	for _, b := range all {
		var percent []string
		for _, rate := range b.rates {
			percent = append(percent, fmt.Sprintf("%g%%", 100*rate))
		}
		p := plan{
			kinds: r.wanted(result.KindCongestion), name: b.name,
			title:  "a bottleneck of " + strings.Join(percent, ", then ") + " of the media's rate",
			params: r.mockParams(2), repetitions: r.Repetitions,
			run: func(ctx context.Context, spec system.Spec) (*outcome, error) { return r.runCongestion(ctx, spec, b) },
		}
		period := r.congestionPeriod(b)
		p.params.Link, p.params.Duration, p.length = b.name, period.Seconds(), r.Warmup+period+runOverhead
		plans = append(plans, p)
	}
	return plans
}

// congestionPeriod returns the length of a run: each rate lasts as long as another run, and at least for several
// groups.
func (r *runner) congestionPeriod(b bottleneck) time.Duration {
	return time.Duration(len(b.rates)) * max(r.Duration, 6*time.Second) * 2 / time.Duration(len(b.rates)+1)
}

// runCongestion gives one subscriber a bottleneck and its neighbour none.
func (r *runner) runCongestion(ctx context.Context, spec system.Spec, b bottleneck) (*outcome, error) {
	mock := r.mock()
	mock.Layers = true
	link := r.stage.Lab.Subscribers[0].Devices[0].Link
	set := func(part float64) error {
		return link.Set(lab.ToHost, lab.Conditions{Rate: lab.Rate(part * mock.Rate)})
	}
	if err := set(b.rates[0]); err != nil {
		return nil, err
	}
	defer link.Set(lab.ToHost, lab.Conditions{})
	period := r.congestionPeriod(b)
	m, err := r.try(ctx, trial.Setup{
		System: spec, Mock: mock, Sessions: []int{1, 1}, Record: true, Duration: period,
		During: func(ctx context.Context, _ *trial.Trial) error {
			for _, rate := range b.rates[1:] {
				if err := trial.Sleep(ctx, period/time.Duration(len(b.rates))); err != nil {
					return err
				}
				if err := set(rate); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	o := outcomeOf(m)
	o.Series["link"] = b.series(mock.Rate, period)
	from, to := video.DueBetween(mock, r.Warmup, r.Warmup+period)
	to = min(to, m.Published.Objects)
	narrow := video.Play(mock, m.Received[0][0].Arrivals, from, to)
	o.addPlayback(narrow, video.Play(mock, m.Received[1][0].Arrivals, from, to))
	return o, nil
}

// addPlayback adds what the subscriber behind the bottleneck and its neighbour would have seen.
func (o *outcome) addPlayback(narrow, neighbour playback.Score) {
	narrow.AddTo(&o.Run)
	o.addValues(playback.Age, narrow.Ages)
	o.Metrics["neighbour.goodput"], o.Metrics["neighbour.playable"] = neighbour.Goodput, 100*neighbour.Playable
	o.Series["neighbour.goodput"] = neighbour.GoodputOverTime
}
