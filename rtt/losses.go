package rtt

import (
	"log/slog"

	"sluice/rtt/bpf"
)

// lossReport logs losses, and the flag that helps.
type lossReport struct {
	logger   *slog.Logger
	counters func() (bpf.MonitorCounterSet, error)
	last     bpf.MonitorCounterSet
}

// losses are the counters of losses, and the remedies.
var losses = []struct {
	tally           bpf.MonitorTally
	message, remedy string
}{
	{
		bpf.MonitorTallyTALLY_FLOWS_EVICTED, "flow table full: flows gave way to new ones",
		"raise --max-flows",
	},
	{bpf.MonitorTallyTALLY_FLOWS_FULL, "flow table full: packets of new flows were not measured", "raise --max-flows"},
	{
		bpf.MonitorTallyTALLY_STAMPS_EVICTED, "stamp table full: RTTs may be missing",
		"raise --max-stamps or --rate-limit",
	},
	{
		bpf.MonitorTallyTALLY_QUERIES_FULL, "query table full: queries of DNS, NTP or STUN were not measured",
		"raise --max-queries",
	},
	{
		bpf.MonitorTallyTALLY_QUERIES_SHARE,
		"queries of a peer that has its share of the query table were not measured",
		"raise --max-queries: a peer has an eighth of it",
	},
	{
		bpf.MonitorTallyTALLY_PREFIXES_FULL, "prefix table full: traffic was counted for all prefixes together",
		"raise --max-prefixes",
	},
	{bpf.MonitorTallyTALLY_EVENTS_LOST, "events were lost", "raise --ring-size or --rate-limit, or use --aggregate"},
}

func newLossReport(logger *slog.Logger, counters func() (bpf.MonitorCounterSet, error)) *lossReport {
	return &lossReport{logger: logger, counters: counters}
}

// report logs the losses since the last report.
func (l *lossReport) report() error {
	now, err := l.counters()
	if err != nil {
		return err
	}
	for _, loss := range losses {
		if n := now.Tally[loss.tally] - l.last.Tally[loss.tally]; n > 0 {
			l.logger.Warn(loss.message, "count", n, "remedy", loss.remedy)
		}
	}
	l.last = now
	return nil
}
