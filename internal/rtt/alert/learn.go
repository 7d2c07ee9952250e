package alert

import (
	"time"

	"sluice/internal/rtt/history"
)

// Learn takes what is usual from a history, so that a monitor that was started again need not learn it. It reads twice
// the time that a signal has to be known: some of it may be missing.
func (d *Detector) Learn(dir string, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return history.Read(dir, now.Add(-2*d.rule.learning()), now, func(r *history.Row) error {
		d.learnLocked(r, PartHosts, r.RTTs, r.Median, r.P95)
		for n := range r.Parts {
			if p := &r.Parts[n]; p.Name == PartPeers || p.Name == PartOneDirection {
				d.learnLocked(r, p.Name, p.RTTs, p.Median, p.P95)
			}
		}
		return nil
	})
}

// learnLocked takes the quantiles of a row.
func (d *Detector) learnLocked(r *history.Row, part string, count uint64, values ...int64) {
	if count < minRTTs {
		return
	}
	a := d.aggregateLocked(r.About(), part)
	a.seen = r.End
	for q := range a.signals {
		a.signals[q].learn(time.Duration(values[q]), max(0, r.End.Sub(r.Start)))
	}
}
