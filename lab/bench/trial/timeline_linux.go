package trial

import (
	"errors"
	"sync"
	"time"

	"sluice/lab/bench/load"
	"sluice/lab/bench/softirq"
)

// timelineInterval is the time between two moments of a timeline.
const timelineInterval = 250 * time.Millisecond

// startTimeline begins to record the CPU times of the processes. The function that it returns ends this. A process that
// has ended ends it too: the trial fails then anyway.
func (t *Trial) startTimeline() (stop func() Timeline) {
	var line Timeline
	begin, end := load.Monotonic(), make(chan struct{})
	var recording sync.WaitGroup
	recording.Go(func() {
		tick := time.NewTicker(timelineInterval)
		defer tick.Stop()
		for last := false; ; {
			m, err := t.moment()
			if err != nil {
				return
			}
			m.At = load.Monotonic() - begin
			if line = append(line, m); last {
				return
			}
			select {
			case <-tick.C:
			case <-end:
				last = true
			}
		}
	})
	return func() Timeline {
		close(end)
		recording.Wait()
		return line
	}
}

// moment reads the CPU time of the processes, and of all eBPF programs.
func (t *Trial) moment() (m Moment, err error) {
	if m.Programs, err = t.stage.programUses(); err != nil {
		return m, err
	}
	softirqs, err := t.softirq.Read()
	errs := []error{err}
	read := func(r softirq.Role, processes ...*process) (used time.Duration) {
		for _, p := range processes {
			if p == nil {
				continue
			}
			clock, err := p.clock()
			errs, used = append(errs, err), used+clock
		}
		return used - softirqs.Processes[r] + softirqs.Devices[r]
	}
	m.Relay, m.Publisher = read(softirq.Relay, t.relay), read(softirq.Publisher, t.publisher)
	m.Subscribers = read(softirq.Subscribers, t.subscribers...)
	for _, id := range t.recorders {
		m.Relay -= m.Programs[id].Runtime
	}
	return m, errors.Join(errs...)
}
