package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"sluice/internal/rtt/bpf"
	"sluice/internal/rtt/groups"
	"sluice/internal/rtt/report"
)

// An Aggregator reads what the programs aggregated, period by period.
type Aggregator struct {
	kernel   *bpf.Monitor
	config   report.Aggregation
	period   uint32
	start    time.Time
	counters bpf.MonitorCounterSet
	active   map[bpf.MonitorAddress]time.Time // end of the last interval with traffic
	rest     []bpf.MonitorAddress             // keys of what there is no room for, or no group
	groups   *groupTable                      // nil: aggregates are prefixes of one length
}

// NewAggregator starts the first period. It adds the prefixes of all IPv4 and of all IPv6 addresses, where the programs
// count prefixes for which there is no room; or, if the configuration has groups, the one of all other addresses.
// There is room for limit prefixes or groups.
func NewAggregator(
	kernel *bpf.Monitor, config report.Aggregation, members groups.Table, limit int,
) (*Aggregator, error) {
	a := &Aggregator{
		kernel: kernel, config: config, active: make(map[bpf.MonitorAddress]time.Time), rest: wholeFamilies,
	}
	if members != nil {
		a.rest = []bpf.MonitorAddress{{}}
		a.groups = newGroupTable(kernel.Maps[bpf.MonitorMapGroups], a.nextGroups, limit)
		if err := a.groups.load(members); err != nil {
			return nil, err
		}
	}
	for _, key := range a.rest {
		if err := a.add(key); err != nil {
			return nil, err
		}
	}
	return a, a.nextPeriod()
}

// nextGroups makes the programs forget which group an address belongs to.
func (a *Aggregator) nextGroups() error {
	generation := a.kernel.Variables[bpf.MonitorVarGroupGeneration]
	var n uint32
	if err := generation.Get(&n); err != nil {
		return err
	}
	return generation.Set(n + 1)
}

// Regroup replaces the groups. It may be called on any goroutine. On an error, the kernel may have some prefixes of the
// new groups and some of the old ones.
func (a *Aggregator) Regroup(members groups.Table) error { return a.groups.load(members) }

// wholeFamilies are the keys of the prefixes of all IPv4 and of all IPv6 addresses.
var wholeFamilies = []bpf.MonitorAddress{
	{Bytes: netip.IPv4Unspecified().As16()},
	{Bytes: netip.IPv6Unspecified().As16()},
}

func (a *Aggregator) add(key bpf.MonitorAddress) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	traffic := a.kernel.Maps[bpf.MonitorMapPrefixTraffic].Put(key, make([]bpf.MonitorTrafficEntry, cpus))
	rtts := a.kernel.Maps[bpf.MonitorMapPrefixRtts].Put(key, bpf.MonitorRttEntry{})
	return errors.Join(traffic, rtts)
}

func (a *Aggregator) nextPeriod() error {
	a.period++
	return a.kernel.Variables[bpf.MonitorVarPeriod].Set(a.period)
}

// Begin sets when the first period began.
func (a *Aggregator) Begin(now time.Time) { a.start = now }

// Turn ends the current period and returns what was aggregated in it. A program that is running may still count for the
// period that ended: Turn calls settle before it reads, which waits until such programs have returned.
func (a *Aggregator) Turn(now time.Time, settle func()) (*report.Interval, error) {
	ended := a.period
	if err := a.nextPeriod(); err != nil {
		return nil, fmt.Errorf("start a period: %w", err)
	}
	settle()
	i := &report.Interval{Aggregation: &a.config, Start: a.start, End: now}
	a.start = now
	counters, err := a.kernel.Counters()
	if err != nil {
		return nil, err
	}
	setTotals(i, &a.counters, &counters)
	a.counters = counters
	prefixes, err := a.read(ended)
	if err != nil {
		return nil, fmt.Errorf("read prefixes: %w", err)
	}
	for _, p := range prefixes {
		i.Prefixes = append(i.Prefixes, *p)
	}
	slices.SortFunc(i.Prefixes, func(x, y report.Prefix) int {
		return cmp.Or(x.Prefix.Compare(y.Prefix), strings.Compare(x.Group, y.Group))
	})
	return i, a.forget(prefixes, now)
}

// read returns the values of a period, by key. Entries without values are left out.
func (a *Aggregator) read(period uint32) (map[bpf.MonitorAddress]*report.Prefix, error) {
	prefixes := make(map[bpf.MonitorAddress]*report.Prefix)
	at := func(key bpf.MonitorAddress) *report.Prefix {
		if prefixes[key] == nil {
			prefixes[key] = a.newPrefix(key)
		}
		return prefixes[key]
	}
	var key bpf.MonitorAddress
	var traffic []bpf.MonitorTrafficEntry
	entries := a.kernel.Maps[bpf.MonitorMapPrefixTraffic].Iterate()
	for entries.Next(&key, &traffic) {
		for cpu := range traffic {
			if p := &traffic[cpu].Periods[period&1]; p.Period == period {
				addTraffic(at(key), p)
			}
		}
	}
	var rtts bpf.MonitorRttEntry
	histograms := a.kernel.Maps[bpf.MonitorMapPrefixRtts].Iterate()
	for histograms.Next(&key, &rtts) {
		if p := &rtts.Periods[period&1]; p.Period == period {
			at(key).RTT = newHistogram(p, a.config.BinWidth)
		}
	}
	return prefixes, errors.Join(entries.Err(), histograms.Err())
}

// addTraffic adds the traffic of one CPU.
func addTraffic(p *report.Prefix, t *bpf.MonitorTrafficPeriod) {
	p.Received = plus(p.Received, &t.Received)
	p.Sent = plus(p.Sent, &t.Sent)
	p.Retransmissions += t.Retransmissions
	p.ECNCapable += t.EcnCapable
	p.ECNMarked += t.EcnMarked
}

type trafficClasses = [bpf.MonitorTrafficClassTRAFFIC_CLASSES]bpf.MonitorTraffic

func plus(t report.PrefixTraffic, classes *trafficClasses) report.PrefixTraffic {
	add := func(t report.Traffic, class bpf.MonitorTrafficClass) report.Traffic {
		return t.Plus(report.Traffic{Packets: classes[class].Packets, Bytes: classes[class].Bytes})
	}
	return report.PrefixTraffic{
		TCPTimestamps: add(t.TCPTimestamps, bpf.MonitorTrafficClassTRAFFIC_TCP_TIMESTAMPS),
		TCPPlain:      add(t.TCPPlain, bpf.MonitorTrafficClassTRAFFIC_TCP_PLAIN),
		Other:         add(t.Other, bpf.MonitorTrafficClassTRAFFIC_OTHER),
	}
}

// newPrefix returns the prefix or the group of a key, without values.
func (a *Aggregator) newPrefix(key bpf.MonitorAddress) *report.Prefix {
	p := &report.Prefix{RTT: report.Histogram{Width: a.config.BinWidth}}
	if a.groups != nil {
		p.Group = a.groups.name(key)
	} else {
		p.Prefix = a.prefix(key)
	}
	return p
}

// prefix returns the prefix of a key.
func (a *Aggregator) prefix(key bpf.MonitorAddress) netip.Prefix {
	addr := netip.AddrFrom16(key.Bytes).Unmap()
	bits := a.config.IPv6Prefix
	if addr.Is4() {
		bits = a.config.IPv4Prefix
	}
	if addr.IsUnspecified() {
		bits = 0
	}
	return netip.PrefixFrom(addr, bits)
}

// forget deletes prefixes without traffic for the timeout.
func (a *Aggregator) forget(active map[bpf.MonitorAddress]*report.Prefix, now time.Time) error {
	for key := range active {
		a.active[key] = now
	}
	if a.config.Timeout == 0 {
		return nil
	}
	for key, last := range a.active {
		if now.Sub(last) < a.config.Timeout || slices.Contains(a.rest, key) {
			continue
		}
		delete(a.active, key)
		for _, m := range []string{bpf.MonitorMapPrefixTraffic, bpf.MonitorMapPrefixRtts} {
			if err := a.kernel.Maps[m].Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return err
			}
		}
	}
	return nil
}

// newHistogram returns what the kernel counted.
func newHistogram(p *bpf.MonitorRttPeriod, width time.Duration) report.Histogram {
	h := report.Histogram{Width: width}
	if p.Count == 0 {
		return h
	}
	h.Count, h.Sum = uint64(p.Count), time.Duration(p.Sum)
	h.Min, h.Max = time.Duration(p.Min), time.Duration(p.Max)
	used := report.MaxBins(width)
	for used > 0 && p.Bins[used-1] == 0 {
		used--
	}
	for _, n := range p.Bins[:used] {
		h.Bins = append(h.Bins, uint64(n))
	}
	return h
}
