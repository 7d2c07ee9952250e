package bench

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/bench/load"
	"sluice/internal/bench/pathprofile"
	"sluice/internal/bench/playback"
	"sluice/internal/bench/replay"
	"sluice/internal/bench/result"
	"sluice/internal/bench/system"
	"sluice/internal/bench/trial"
	"sluice/internal/bench/video"
	"sluice/internal/lab"
)

// bottlenecks are the paths behind which a subscriber is measured, and how long: in halves of another run, or of 6 s.
var bottlenecks = []struct {
	profile string
	halves  time.Duration
}{{"constant", 2}, {"step", 3}, {"sawtooth", 4}, {"lte", 4}, {"loss", 2}, {"bulk", 3}}

func (r *runner) congestionPlans() (plans []plan) {
	all := bottlenecks
	if r.Brief {
		all = all[:1]
	}
	for _, b := range all {
		path, _ := pathprofile.Find(b.profile)
		period := b.halves * max(r.Duration, 6*time.Second) / 2
		p := plan{
			kinds: r.wanted(result.KindCongestion), name: path.Name, title: "a bottleneck: " + path.Title,
			params: r.mockParams(2), repetitions: r.Repetitions,
			run: func(ctx context.Context, spec system.Spec) (*outcome, error) {
				return r.runCongestion(ctx, spec, path, period)
			},
		}
		p.params.Link, p.params.Duration, p.length = path.Name, period.Seconds(), r.Warmup+period+runOverhead
		plans = append(plans, p)
	}
	return plans
}

// bottleneck is the link of the subscriber behind a bottleneck.
type bottleneck struct {
	link  *lab.Link
	path  pathprofile.Profile
	media float64 // bit/s
	begin time.Time
	made  []replay.Change // since begin
}

// lowestRate lets one packet pass within the time in which a player shows a frame.
const lowestRate = 16_000

// set sets a rate, as a part of the media's.
func (b *bottleneck) set(part float64) error {
	c := lab.Conditions{Rate: max(lab.Rate(part*b.media), lowestRate), Loss: lab.Probability(b.path.Loss)}
	b.made = append(b.made, replay.Change{
		At: replay.Seconds(time.Since(b.begin)), Rate: int64(c.Rate), RTT: replay.Seconds(time.Millisecond),
		Queue: max(int(float64(c.Rate)/8*lab.DefaultQueue.Seconds()), 3000), Loss: b.path.Loss, Bulk: b.path.Bulk,
	})
	return b.link.Set(lab.ToHost, c)
}

// follow makes the link what the path says, from the second point on.
func (b *bottleneck) follow(ctx context.Context, points []pathprofile.Point) error {
	for _, p := range points[1:] {
		if err := trial.Sleep(ctx, time.Until(b.begin.Add(p.At))); err != nil {
			return err
		}
		if err := b.set(p.Rate); err != nil {
			return err
		}
	}
	return nil
}

// runCongestion gives one subscriber a bottleneck and its neighbour none.
func (r *runner) runCongestion(
	ctx context.Context, spec system.Spec, path pathprofile.Profile, period time.Duration,
) (*outcome, error) {
	mock := r.mock()
	mock.Layers = true
	hosts := r.stage.Lab.Subscribers
	b := &bottleneck{link: hosts[0].Devices[0].Link, path: path, media: mock.Rate + video.Audio.Rate, begin: time.Now()}
	points := path.Rates(period, r.Seed)
	if err := b.set(points[0].Rate); err != nil {
		return nil, err
	}
	defer b.link.Set(lab.ToHost, lab.Conditions{})
	var bulk bulkFlow
	defer bulk.stop()
	m, err := r.try(ctx, trial.Setup{
		System: spec, Mock: mock, Audio: true, Sessions: []int{1, 1}, Record: true, Duration: period,
		During: func(ctx context.Context, _ *trial.Trial) error {
			b.begin = time.Now()
			if path.Bulk {
				if err := bulk.start(hosts[1], hosts[0]); err != nil {
					return err
				}
			}
			return b.follow(ctx, points)
		},
	})
	if err != nil {
		return nil, err
	}
	bulk.stop()
	o := outcomeOf(m)
	if path.Bulk {
		o.Metrics["bulk"] = float64(bulk.received) * 8 / 1e6 / time.Since(b.begin).Seconds()
	}
	o.Series["link"] = series(points, b.media, period)
	from, to := video.DueBetween(mock, r.Warmup, r.Warmup+period)
	to = min(to, m.Published.Objects)
	play := func(r load.Received) playback.Score { return video.Play(mock, r.Arrivals, r.Audio, from, to) }
	o.addPlayback(play(m.Received[0][0]), play(m.Received[1][0]))
	return o, r.writeTrace(path.Name, replay.Media(mock, from, to), b.made)
}

// writeTrace writes what was published and how the path was as a trace, once for each path.
func (r *runner) writeTrace(name string, t *replay.Trace, path []replay.Change) error {
	if r.Traces == "" {
		return nil
	}
	path[0].At = 0
	t.Path = path
	file, err := os.OpenFile(filepath.Join(r.Traces, name+".jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return t.Write(file)
}

// series returns the rate of the link over a run, Mbit/s.
func series(points []pathprofile.Point, mediaRate float64, period time.Duration) (s result.Series) {
	for i, p := range points {
		end := period
		if i+1 < len(points) {
			end = points[i+1].At
		}
		s.Add(p.At.Seconds(), p.Rate*mediaRate/1e6)
		s.Add(end.Seconds(), p.Rate*mediaRate/1e6)
	}
	return s
}

// addPlayback adds what the subscriber behind the bottleneck and its neighbour would have seen.
func (o *outcome) addPlayback(narrow, neighbour playback.Score) {
	narrow.AddTo(&o.Run)
	o.addValues(playback.Age, narrow.Ages)
	o.Metrics["neighbour.goodput"], o.Metrics["neighbour.playable"] = neighbour.Goodput, 100*neighbour.Playable
	o.Series["neighbour.goodput"] = neighbour.GoodputOverTime
}
