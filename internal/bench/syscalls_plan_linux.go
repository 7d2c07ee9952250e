package bench

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/bench/result"
	"sluice/internal/bench/syscalls"
	"sluice/internal/bench/system"
	"sluice/internal/bench/trial"
)

// syscallSubscribers is the fan-out at which system calls are counted.
const syscallSubscribers = 10

// syscallPlan counts the system calls of a relay by name.
func (r *runner) syscallPlan() plan {
	return plan{
		kinds: r.wanted(result.KindSyscalls), name: fmt.Sprint(syscallSubscribers),
		title:       fmt.Sprintf("system calls, %d subscribers", syscallSubscribers),
		params:      r.mockParams(syscallSubscribers),
		repetitions: r.Repetitions, length: r.Warmup + r.Duration + runOverhead, run: r.runSyscalls,
	}
}

func (r *runner) runSyscalls(ctx context.Context, spec system.Spec) (_ *outcome, err error) {
	var counter *syscalls.Counter
	var total map[string]uint64
	defer func() {
		if counter != nil {
			err = errors.Join(err, counter.Close())
		}
	}()
	m, err := r.try(ctx, trial.Setup{
		System: spec, Sessions: []int{syscallSubscribers},
		During: func(_ context.Context, t *trial.Trial) (err error) {
			counter, err = syscalls.Count(t.RelayPID())
			return err
		},
		After: func() (err error) {
			total, err = counter.Stop()
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	o := outcomeOf(m)
	o.addSyscalls(total, &m.Usage)
	return o, nil
}

// addSyscalls adds the system calls that the relay made in a period.
func (o *outcome) addSyscalls(total map[string]uint64, u *trial.Usage) {
	const video = 30.0 // seconds, so that runs of any length can be compared
	per30 := video / u.Period.Seconds()
	calls := make(map[string]float64)
	for name, n := range total {
		calls[name] = float64(n) * per30
		o.Metrics["syscalls.total"] += float64(n) * per30
		o.Metrics["syscalls.packet"] += float64(n) / float64(max(u.Packets, 1))
	}
	o.Breakdowns["syscalls"] = calls
}
