package command

import (
	"sluice/rtt"
	"sluice/rtt/report"
)

// liveTop is the Sink of a Monitor that updates the tables of a view.
type liveTop struct {
	report.IntervalsOnly
	*topView
	monitor *rtt.Monitor
}

// Interval updates both tables.
func (l *liveTop) Interval(i *report.Interval) error {
	l.update(func() error {
		flows, err := l.monitor.Flows()
		if err != nil {
			return err
		}
		l.flows.UpdateFlows(i.End, flows)
		l.networks.UpdatePrefixes(i)
		return nil
	})
	return nil
}
