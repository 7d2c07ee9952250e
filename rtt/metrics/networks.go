package metrics

import (
	"sluice/rtt/networks"
	"sluice/rtt/report"
)

// Networks is a Sink that fills a table of how far networks are.
type Networks struct {
	report.IntervalsOnly
	*networks.Table
}

// Sample adds an RTT to the network of who has replied, unless it is ambiguous. What a DNS server takes is not only the
// way to it.
func (n Networks) Sample(s *report.Sample) error {
	if s.DNS == nil && !s.Ambiguous && !s.OneDirection {
		n.Add(s.Source.Addr(), s.RTT)
	}
	return nil
}

// Interval takes the medians of aggregates, without queries. Groups of prefixes are no networks. Prefixes are sorted,
// so aggregates that differ only in other keys follow each other, and are one network.
func (n Networks) Interval(i *report.Interval) error {
	for k := 0; k < len(i.Prefixes); {
		prefix, all := i.Prefixes[k].Prefix, report.Histogram{}
		for ; k < len(i.Prefixes) && i.Prefixes[k].Prefix == prefix; k++ {
			all.Add(&i.Prefixes[k].RTT)
		}
		if prefix.IsValid() {
			n.Set(prefix, all.Quantile(0.5), all.Count)
		}
	}
	return nil
}
