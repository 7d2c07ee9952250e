package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/lab/bench/load"
	"sluice/lab/bench/result"
	"sluice/lab/bench/trial"
	"sluice/lab/bench/video"
)

// participants is how many there are in a conference.
const participants = 4

// conferencePlan measures how old frames are when the other participants in a conference have them.
func (r *runner) conferencePlan() plan {
	return r.oneTrial([]string{result.KindConference},
		view{name: fmt.Sprint(participants), title: fmt.Sprintf("a conference of %d participants", participants)},
		trial.Setup{Sessions: []int{participants - 1}, Participants: participants, Idle: true},
		func(o *outcome, m *trial.Measurement) {
			o.addCPU(&m.Usage)
			o.addValues("glass", agesOf(m.Received, r.warmup))
		})
}

// agesOf returns the ages of frames when their last byte arrived, in milliseconds, sorted. Frames of the warm-up do not
// count.
func agesOf(hosts [][]load.Received, warmup time.Duration) (ages []float64) {
	for _, r := range slices.Concat(hosts...) {
		if len(r.Arrivals) == 0 {
			continue
		}
		earlier := func(a, b video.Arrival) int { return cmp.Compare(a.Published, b.Published) }
		begin := slices.MinFunc(r.Arrivals, earlier).Published
		for _, a := range r.Arrivals {
			if time.Duration(a.Published-begin) >= warmup {
				ages = append(ages, milliseconds(time.Duration(a.Arrived-a.Published)))
			}
		}
	}
	slices.Sort(ages)
	return ages
}
