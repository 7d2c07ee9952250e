package metrics

import (
	"sluice/internal/rtt/networks"
	"sluice/internal/rtt/report"
)

// Networks is a Sink that fills a table of how far networks are.
type Networks struct{ *networks.Table }

// Sample adds an RTT to the network of who has replied. What a DNS server takes is not only the way to it.
func (n Networks) Sample(s *report.Sample) error {
	if s.DNS == nil {
		n.Add(s.Source.Addr(), s.RTT)
	}
	return nil
}

// Flow does nothing.
func (Networks) Flow(*report.FlowEvent) error { return nil }

// Interval takes the medians of what was aggregated. Groups of prefixes are no networks.
func (n Networks) Interval(i *report.Interval) error {
	for k := range i.Prefixes {
		p := &i.Prefixes[k]
		if p.Group != "" {
			continue
		}
		n.Set(p.Prefix, p.RTT.Quantile(0.5), p.RTT.Count)
	}
	return nil
}

// Flush does nothing.
func (Networks) Flush() error { return nil }
