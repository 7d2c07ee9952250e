package rtt

import "sluice/internal/rtt/bpf"

// Counters is what the kernel programs counted since they were loaded.
type Counters struct {
	Outcomes   []NamedCount // of packets: each has exactly one
	Events     []NamedCount // that happened to packets, flows and RTTs
	Flows      uint64       // in the flow table now
	Transports []NamedTraffic
	ECN        []NamedTraffic
}

// Counters reads the counters. Traffic is only counted with Config.CountTraffic or Config.Aggregate.
func (m *Monitor) Counters() (Counters, error) {
	set, err := m.counters()
	if err != nil {
		return Counters{}, err
	}
	var none Interval
	none.setTotals(new(bpf.MonitorCounterSet), &set)
	c := Counters{Transports: none.Transports, ECN: none.ECN}
	for i, n := range set.Outcome {
		if bpf.MonitorOutcome(i) != bpf.MonitorOutcomeOUTCOME_CONTINUE {
			c.Outcomes = append(c.Outcomes, NamedCount{bpf.Outcomes[i].Label, n})
		}
	}
	for i, n := range set.Tally {
		c.Events = append(c.Events, NamedCount{bpf.Tallies[i].Label, n})
	}
	c.Flows = set.Tally[bpf.MonitorTallyTALLY_FLOWS_CREATED] -
		set.Tally[bpf.MonitorTallyTALLY_FLOWS_DELETED] - set.Tally[bpf.MonitorTallyTALLY_FLOWS_EXPIRED]
	return c, nil
}
