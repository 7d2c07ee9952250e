package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	p := r.oneTrial([]string{result.KindChain}, fmt.Sprintf("%d/%s", relays, load),
		fmt.Sprintf("a chain of %s, %s", count, load),
		trial.Setup{Relays: relays, Sessions: []int{1}, Hog: load == loadHog},
		func(o *outcome, m *trial.Measurement) { o.addChain(chainBursts(m.Packets, r.stage.Lab, relays)) })
	p.params.Relays, p.params.Load = relays, load
	return p
}

// chainBursts matches the frames that entered a chain with the frames that each of its relays has sent.
func chainBursts(packets []measure.Packet, l *lab.Lab, relays int) (sent []measure.BurstDelays) {
	chain := l.Chain(relays)
	for i := range relays {
		to := l.Subscribers[0]
		if i+1 < relays {
			to = l.Relays[i+1]
		}
		sent = append(sent, measure.MatchBursts(chain.Until(packets, to), lab.IntoChain, lab.OutOfChain))
	}
	return sent
}

// addChain adds the delays of a chain, where each relay has sent some frames.
func (o *outcome) addChain(sent []measure.BurstDelays) {
	whole := sent[len(sent)-1]
	o.addValues("first", sorted(whole.First()))
	o.addValues("last", sorted(whole.Last()))
	if all := len(whole.Matched) + whole.Unmatched; all > 0 {
		o.Metrics["unmatched"] = 100 * float64(whole.Unmatched) / float64(all)
	}
	if len(whole.Matched) == 0 {
		o.Unusable = cmp.Or(o.Unusable, "no frame has come through the chain")
	}
	var first, last measure.Delays
	for i := range sent[1:] {
		before := make(map[time.Duration]measure.BurstDelay) // by when the frame entered the chain
		for _, b := range sent[i].Matched {
			before[b.In.First] = b
		}
		for _, b := range sent[i+1].Matched {
			if earlier, ok := before[b.In.First]; ok {
				first, last = append(first, b.First()-earlier.First()), append(last, b.Last()-earlier.Last())
			}
		}
	}
	if len(sent) > 1 {
		o.addValues("hop", sorted(first))
		o.addValues("hop.last", sorted(last))
	}
}

// sorted returns delays in milliseconds, the smallest first.
func sorted(d measure.Delays) []float64 {
	values := make([]float64, len(d))
	for i := range d {
		values[i] = milliseconds(d[i])
	}
	slices.Sort(values)
	return values
}
