package bench

import (
	"fmt"

	"sluice/lab"
	"sluice/lab/bench/result"
	"sluice/lab/bench/trial"
	"sluice/lab/measure"
)

// chainPlans measure how much delay each further relay of a chain adds.
func (r *runner) chainPlans() (plans []plan) {
	lengths, loads := []int{1, 2, 3, 4}, []string{loadIdle, loadHog}
	if r.Brief {
		lengths, loads = []int{1, 3}, loads[:1]
	}
	for _, load := range loads {
		for _, n := range lengths {
			plans = append(plans, r.chainPlan(n, load))
		}
	}
	return plans
}

func (r *runner) chainPlan(relays int, load string) plan {
	count := "1 relay"
	if relays > 1 {
		count = fmt.Sprintf("%d relays", relays)
	}
	v := view{fmt.Sprintf("%d/%s", relays, load), fmt.Sprintf("a chain of %s, %s", count, load),
		result.Params{Relays: relays, Load: load}}
	return r.oneTrial([]string{result.KindChain}, v,
		trial.Setup{Relays: relays, Sessions: []int{1}, Hog: load == loadHog},
		func(o *outcome, m *trial.Measurement) { o.addChain(chainBursts(m.Packets, r.stage.Lab, relays)) })
}

// chainBursts matches the frames that entered a chain with the frames that each of its relays has sent.
func chainBursts(packets []measure.Packet, l *lab.Lab, relays int) (sent []measure.BurstDelays) {
	chain := l.Chain(relays)
	for i := range relays {
		to := l.Subscribers[0]
		if i+1 < relays {
			to = l.Relays[i+1]
		}
		sent = append(sent, measure.MatchBursts(chain.Until(packets, to)))
	}
	return sent
}
