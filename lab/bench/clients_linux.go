package bench

import (
	"sluice/lab/bench/result"
	"sluice/lab/bench/trial"
)

// clientPlans measure the delay of frames from and to programs that people use, with one player.
func (r *runner) clientPlans() (plans []plan) {
	for _, c := range r.Clients {
		plans = append(plans, r.oneTrial([]string{result.KindClients}, c.Name, "the clients of "+c.Name,
			trial.Setup{Clients: &c, Init: r.Init, Sessions: []int{1}},
			func(o *outcome, m *trial.Measurement) { o.addDelays(measureDelays(m)) }))
	}
	return plans
}
