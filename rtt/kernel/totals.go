package kernel

import (
	"sluice/rtt/bpf"
	"sluice/rtt/report"
)

// Names of the counters that are not kept by prefix.
var (
	transportNames = [...]string{"non-IP", "TCP", "UDP", "ICMP", "ICMPv6", "other"}
	ecnNames       = [...]string{"Not-ECT", "ECT1", "ECT0", "CE"}
	errorNames     = [...]struct {
		name  string
		tally bpf.MonitorTally
	}{
		{"store-packet-ts", bpf.MonitorTallyTALLY_STAMPS_EVICTED},
		{"create-flow-state", bpf.MonitorTallyTALLY_FLOWS_FULL},
		{"create-agg-subnet-state", bpf.MonitorTallyTALLY_PREFIXES_FULL},
	}
)

// setTotals sets the differences between two readings of the counters. Zeros are left out.
func setTotals(i *report.Interval, before, after *bpf.MonitorCounterSet) {
	for n, name := range transportNames {
		i.Transports = appendTraffic(i.Transports, name, before.Transport[n], after.Transport[n])
	}
	for n, name := range ecnNames {
		i.ECN = appendTraffic(i.ECN, name, before.Ecn[n], after.Ecn[n])
	}
	for _, e := range errorNames {
		if n := after.Tally[e.tally] - before.Tally[e.tally]; n > 0 {
			i.Errors = append(i.Errors, report.NamedCount{Name: e.name, Count: n})
		}
	}
}

func appendTraffic(list []report.NamedTraffic, name string, before, after bpf.MonitorTraffic) []report.NamedTraffic {
	t := report.Traffic{Packets: after.Packets - before.Packets, Bytes: after.Bytes - before.Bytes}
	if t == (report.Traffic{}) {
		return list
	}
	return append(list, report.NamedTraffic{Name: name, Traffic: t})
}

// ReadCounters reads the counters of the programs. Traffic is counted only with MonitorSettings.Traffic.
func ReadCounters(programs *bpf.Monitor) (report.Counters, error) {
	set, err := programs.Counters()
	if err != nil {
		return report.Counters{}, err
	}
	var since report.Interval
	setTotals(&since, new(bpf.MonitorCounterSet), &set)
	c := report.Counters{Transports: since.Transports, ECN: since.ECN}
	for i, n := range set.Outcome {
		if bpf.MonitorOutcome(i) != bpf.MonitorOutcomeOUTCOME_CONTINUE {
			c.Outcomes = append(c.Outcomes, report.NamedCount{Name: bpf.Outcomes[i].Label, Count: n})
		}
	}
	for i, n := range set.Tally {
		c.Events = append(c.Events, report.NamedCount{Name: bpf.Tallies[i].Label, Count: n})
	}
	c.Flows, c.FlowLimit = flowsNow(&set), uint64(programs.Maps[bpf.MonitorMapFlows].MaxEntries())
	return c, nil
}

// flowsNow returns how many flows the table has. A flow that moves leaves the entry of its old ends, and takes one that
// was created for the new ends. CPUs count while they are read: the end of a flow may be counted before its beginning.
func flowsNow(set *bpf.MonitorCounterSet) uint64 {
	created := set.Tally[bpf.MonitorTallyTALLY_FLOWS_CREATED]
	gone := set.Tally[bpf.MonitorTallyTALLY_FLOWS_DELETED] + set.Tally[bpf.MonitorTallyTALLY_FLOWS_EXPIRED] +
		set.Tally[bpf.MonitorTallyTALLY_FLOWS_EVICTED] + set.Tally[bpf.MonitorTallyTALLY_FLOWS_MOVED]
	return created - min(gone, created)
}
