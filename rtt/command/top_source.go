package command

import (
	"context"
	"fmt"
	"time"

	"sluice/rtt"
	"sluice/rtt/history"
	"sluice/rtt/report"
)

// liveTop is the Sink of a Monitor that updates the tables of a view.
type liveTop struct {
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

// Sample, Flow and Flush are not called: nothing is reported.
func (*liveTop) Sample(*report.Sample) error  { return nil }
func (*liveTop) Flow(*report.FlowEvent) error { return nil }
func (*liveTop) Flush() error                 { return nil }

// historyRefresh is how often a history is read again. It gets a file every ten minutes, so a minute is often enough.
const historyRefresh = time.Minute

// pastTop updates the table of a view with a history.
type pastTop struct {
	*topView
	dir   string
	query pastQuery
}

func (p pastTop) run(ctx context.Context) error {
	for {
		totals, err := history.Total(p.dir, p.query.at(time.Now()))
		if err != nil {
			return explainEmpty(p.dir, err)
		}
		p.update(func() error {
			p.title = p.titleOf(totals)
			p.networks.UpdateTotals(totals)
			return nil
		})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(historyRefresh):
		}
	}
}

// titleOf returns the subject of the table. Its end is told if it is not now.
func (p pastTop) titleOf(t *history.Totals) string {
	title := fmt.Sprintf("%s since %s", p.dir, t.From.Local().Format(time.DateTime))
	if p.query.until > 0 {
		title += " until " + t.To.Local().Format(time.DateTime)
	}
	return title
}
