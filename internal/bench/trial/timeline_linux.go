package trial

import (
	"errors"
	"sync"
	"time"
)

// timelineInterval is the time between two moments of a timeline.
const timelineInterval = 250 * time.Millisecond

// startTimeline begins to record what the processes have used up. The function that it returns ends this. A process
// that has ended ends it too: the trial fails then anyway.
func (t *Trial) startTimeline() (stop func() Timeline) {
	var line Timeline
	begin, end := now(), make(chan struct{})
	var recording sync.WaitGroup
	recording.Go(func() {
		tick := time.NewTicker(timelineInterval)
		defer tick.Stop()
		for last := false; ; {
			m, err := t.moment()
			if err != nil {
				return
			}
			m.At = now() - begin
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
	var errs []error
	read := func(p *process) time.Duration {
		used, err := p.clock()
		errs = append(errs, err)
		return used
	}
	softirq, err := t.softirq.Total()
	errs = append(errs, err)
	m.Relay, m.Publisher = read(t.relay)-softirq, read(t.publisher)
	for _, p := range t.subscribers {
		m.Subscribers += read(p)
	}
	return m, errors.Join(errs...)
}
