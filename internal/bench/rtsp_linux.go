package bench

import (
	"fmt"

	"sluice/internal/bench/result"
	"sluice/internal/bench/trial"
)

// rtspPlans measure relays whose publisher and players use RTSP: delays, CPU, memory and capacity.
func (r *runner) rtspPlans() (plans []plan) {
	for _, load := range []string{loadIdle, loadHog} {
		for _, n := range r.Subscribers {
			if load == loadIdle || n <= hogSubscribers {
				plans = append(plans, r.rtspPlan(n, load))
			}
		}
	}
	return append(plans, r.capacityPlan(result.KindRTSP))
}

func (r *runner) rtspPlan(players int, load string) plan {
	p := plan{
		kinds: r.wanted(result.KindRTSP), name: fmt.Sprintf("%d/%s", players, load),
		title: fmt.Sprintf("RTSP, %s, %s", subscriberCount(players), load), params: r.mockParams(players),
		repetitions: r.Repetitions, length: r.Warmup + r.Duration + runOverhead,
		run: r.fanout(trial.Setup{
			RTSP: true, Sessions: []int{players}, Idle: load == loadIdle, Hog: load == loadHog,
		}, r.variants()[0]),
	}
	p.params.Cipher = "" // RTP is in the clear
	if p.params.Load = load; load == loadIdle {
		p.length += trial.IdlePeriod
	}
	return p
}
