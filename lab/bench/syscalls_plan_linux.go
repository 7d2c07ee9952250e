package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/lab/bench/result"
	"sluice/lab/bench/syscalls"
	"sluice/lab/bench/system"
	"sluice/lab/bench/trial"
)

// syscallPeriod is how long system calls are counted.
const syscallPeriod = 30 * time.Second

// syscallPlan counts the system calls of a relay by name.
func (r *runner) syscallPlan(subscribers int) plan {
	p := plan{
		kinds: r.wanted(result.KindSyscalls), name: fmt.Sprint(subscribers),
		title: "system calls, " + subscriberCount(subscribers), params: r.mockParams(subscribers),
		repetitions: r.Repetitions,
		run: func(ctx context.Context, spec system.Spec) (*outcome, error) {
			return r.runSyscalls(ctx, spec, subscribers)
		},
	}
	period := r.syscallPeriod()
	p.params.Duration, p.length = period.Seconds(), r.Warmup+period+runOverhead
	return p
}

func (r *runner) syscallPeriod() time.Duration {
	if r.Brief {
		return r.Duration
	}
	return syscallPeriod
}

func (r *runner) runSyscalls(ctx context.Context, spec system.Spec, subscribers int) (_ *outcome, err error) {
	var counter *syscalls.Counter
	var total map[string]uint64
	defer func() {
		if counter != nil {
			err = errors.Join(err, counter.Close())
		}
	}()
	m, err := r.try(ctx, trial.Setup{
		System: spec, Sessions: []int{subscribers}, Duration: r.syscallPeriod(),
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
	per30 := syscallPeriod.Seconds() / u.Period.Seconds() // so that brief runs can be compared, too
	calls := make(map[string]float64)
	for name, n := range total {
		calls[name] = float64(n) * per30
		o.Metrics["syscalls.total"] += float64(n) * per30
		o.Metrics["syscalls.frame"] += float64(n) / float64(max(u.Delivered, 1))
		o.Metrics["syscalls.packet"] += float64(n) / float64(max(u.Packets, 1))
	}
	o.Breakdowns["syscalls"] = calls
}
