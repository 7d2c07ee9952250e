package replay

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"sluice/lab/bench/playback"
	"sluice/lab/bench/result"
)

// Case is a trace under the name of a scenario.
type Case struct {
	Name, Title string
	Traces      []*Trace // one for each seed, from 1 on
}

// Compare replays all cases with all subjects, each seed once. The report is like the benchmark's: subjects are its
// systems, and the others are compared with the first.
func Compare(ctx context.Context, cases []Case, subjects []Subject) (*result.Report, error) {
	r := &result.Report{
		Format: result.Format, Seed: 1, Metrics: metrics(), Machine: result.Machine{CPU: "a simulation"},
	}
	for _, s := range subjects {
		r.Systems = append(r.Systems, result.System{Name: s.Name()})
	}
	for _, c := range cases {
		s, err := c.compare(ctx, subjects)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		r.Scenarios = append(r.Scenarios, s)
	}
	return r, nil
}

// metrics describes the names in the report.
func metrics() map[string]result.Metric {
	m := maps.Clone(playback.Metrics)
	m["packets"] = result.Metric{Title: "packets that the relay sent"}
	for _, t := range result.Tails() {
		age := m[playback.Age]
		age.Title += ", " + t.Name
		m[playback.Age+"."+t.Name] = age
	}
	return m
}

// compare replays the traces of a case, several at a time.
func (c Case) compare(ctx context.Context, subjects []Subject) (s result.Scenario, err error) {
	outcomes := make([][]Outcome, len(subjects))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, subject := range subjects {
		outcomes[i] = make([]Outcome, len(c.Traces))
		for j, t := range c.Traces {
			g.Go(func() (err error) {
				if err = ctx.Err(); err == nil {
					outcomes[i][j], err = Run(t, subject, uint64(j+1))
				}
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return s, err
	}
	first, media := c.Traces[0], "mock"
	if len(first.bitrates) > 1 {
		media = "mock ladder"
	}
	s = result.Scenario{
		Kind: result.KindCongestion, Name: result.KindCongestion + "/" + c.Name, Title: c.Title,
		Params: result.Params{Link: c.Name, Media: media, Rate: first.Rate() / 1e6,
			Duration: first.length.Seconds()},
	}
	for j := range c.Traces {
		for i, subject := range subjects {
			s.Runs = append(s.Runs, outcomes[i][j].run(subject.Name(), j+1))
		}
	}
	for i, subject := range subjects {
		s.Summaries = append(s.Summaries, summarize(subject.Name(), outcomes[i], s.Runs))
	}
	return s, nil
}

// summarize returns the summary of a subject's runs.
func summarize(subject string, outcomes []Outcome, runs []result.Run) result.Summary {
	others := func(r result.Run) bool { return r.System != subject }
	s := result.Summarize(subject, slices.DeleteFunc(slices.Clone(runs), others))
	var ages []float64
	for _, o := range outcomes {
		ages = append(ages, o.Ages...)
	}
	s.Distributions = map[string]result.Distribution{playback.Age: result.NewDistribution(ages)}
	return s
}
