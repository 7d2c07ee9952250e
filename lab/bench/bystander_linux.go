package bench

import (
	"cmp"
	"context"
	"fmt"

	"sluice/lab/bench/load"
	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
	"sluice/lab/bench/trial"
)

// bystanderPlan measures how long others wait for the processor that handles the publisher's packets.
func (r *runner) bystanderPlan(subscribers int) plan {
	return plan{
		kinds: r.wanted(result.KindBystander), name: fmt.Sprint(subscribers),
		title: "a bystander's ping, " + subscriberCount(subscribers), params: r.mockParams(subscribers),
		repetitions: r.Repetitions, length: r.Warmup + r.Duration + trial.IdlePeriod + runOverhead,
		run: func(ctx context.Context, spec system.Spec) (*outcome, error) {
			m, err := r.try(ctx, trial.Setup{
				System: spec, Sessions: []int{subscribers}, Idle: true, Bystander: true,
			})
			if err != nil {
				return nil, err
			}
			o := outcomeOf(m)
			o.Unusable = cmp.Or(o.Unusable, m.Exhausted())
			o.addPings(m.Pinged, m.IdlePinged)
			return o, nil
		},
	}
}

// addPings adds the pings of a bystander, and those before media flowed.
func (o *outcome) addPings(busy, idle load.Pinged) {
	o.addValues("ping", busy.Delays)
	o.addValues("ping.idle", idle.Delays)
	o.Metrics["ping.lost"] = float64(busy.Lost + idle.Lost)
}
