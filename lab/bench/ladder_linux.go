package bench

import (
	"context"
	"fmt"
	"time"

	"sluice/lab/bench/load"
	"sluice/lab/bench/pathprofile"
	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
)

// ladderPaths are the bottlenecks behind which subscribers have several renditions, among which the relay chooses.
var ladderPaths = []string{"constant", "step", "sawtooth"}

// ladderPeriods is how many times as long as other runs one with several renditions is: a rendition that was too good
// is tried again half a minute later.
const ladderPeriods = 10

// ladderPlan is like congestionPlan, with several renditions. The variants without the fast path and without a policy
// do not take part: they choose by the same rule. A brief run would show nothing.
func (r *runner) ladderPlan() plan {
	if r.Brief {
		return plan{}
	}
	period := ladderPeriods * max(r.Duration, 6*time.Second)
	p := plan{
		kinds: r.wanted(result.KindCongestion), repetitions: r.Repetitions,
		length: r.Warmup + period + load.Stragglers + runOverhead, without: []string{system.SlowPath, system.NoDrop},
	}
	var paths []pathprofile.Profile
	params := r.mockParams(len(ladderPaths) + 1)
	params.Duration = period.Seconds()
	for _, name := range ladderPaths {
		path, _ := pathprofile.Find(name)
		paths = append(paths, path)
		params.Link, params.Media = path.Name, "mock ladder"
		p.views = append(p.views, view{"ladder/" + path.Name, "a ladder: " + path.Title, params})
	}
	p.title = fmt.Sprintf("%d bottlenecks with a ladder", len(paths))
	p.run = func(ctx context.Context, spec system.Spec) (*outcome, error) {
		return r.runCongestion(ctx, spec, paths, true, period)
	}
	return p
}
