package rtt

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"sluice/internal/rtt/bpf"
)

// aggregator reads what the kernel aggregated, period by period.
type aggregator struct {
	kernel   *bpf.Monitor
	how      Aggregation
	period   uint32
	start    time.Time
	counters bpf.MonitorCounterSet
	active   map[bpf.MonitorAddress]time.Time // end of the last interval with traffic
}

// newAggregator starts the first period. It adds the prefixes of all addresses, which take what finds no place.
func newAggregator(kernel *bpf.Monitor, cfg *Config) (*aggregator, error) {
	a := &aggregator{
		kernel: kernel,
		how: Aggregation{
			Every:      cfg.Aggregate,
			Timeout:    max(cfg.AggregateTimeout, 0),
			BinWidth:   cfg.BinWidth,
			IPv4Prefix: max(cfg.IPv4Prefix, 0),
			IPv6Prefix: max(cfg.IPv6Prefix, 0),
		},
		active: make(map[bpf.MonitorAddress]time.Time),
	}
	for _, family := range wholeFamilies {
		if err := a.add(family); err != nil {
			return nil, err
		}
	}
	return a, a.nextPeriod()
}

// wholeFamilies are the keys of all IPv4 and all IPv6 addresses.
var wholeFamilies = []bpf.MonitorAddress{
	{Bytes: netip.IPv4Unspecified().As16()},
	{Bytes: netip.IPv6Unspecified().As16()},
}

func (a *aggregator) add(key bpf.MonitorAddress) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	traffic := a.kernel.Maps[bpf.MonitorMapPrefixTraffic].Put(key, make([]bpf.MonitorTrafficEntry, cpus))
	rtts := a.kernel.Maps[bpf.MonitorMapPrefixRtts].Put(key, bpf.MonitorRttEntry{})
	return errors.Join(traffic, rtts)
}

func (a *aggregator) nextPeriod() error {
	a.period++
	return a.kernel.Variables[bpf.MonitorVarPeriod].Set(a.period)
}

// begin says when the first period began.
func (a *aggregator) begin(now time.Time) { a.start = now }

// turn ends the current period and returns what was aggregated in it. settle is called before its values are read, and
// has to give programs that still write them the time to finish.
func (a *aggregator) turn(now time.Time, settle func()) (*Interval, error) {
	ended := a.period
	if err := a.nextPeriod(); err != nil {
		return nil, fmt.Errorf("start a period: %w", err)
	}
	settle()
	i := &Interval{Aggregation: &a.how, Start: a.start, End: now}
	a.start = now
	counters, err := a.kernel.Counters()
	if err != nil {
		return nil, err
	}
	i.setTotals(&a.counters, &counters)
	a.counters = counters
	prefixes, err := a.read(ended)
	if err != nil {
		return nil, fmt.Errorf("read prefixes: %w", err)
	}
	for _, p := range prefixes {
		i.Prefixes = append(i.Prefixes, *p)
	}
	slices.SortFunc(i.Prefixes, func(x, y Prefix) int { return x.Prefix.Compare(y.Prefix) })
	return i, a.forget(prefixes, now)
}

// read collects the values of a period, by key. Entries without any are left out.
func (a *aggregator) read(period uint32) (map[bpf.MonitorAddress]*Prefix, error) {
	prefixes := make(map[bpf.MonitorAddress]*Prefix)
	at := func(key bpf.MonitorAddress) *Prefix {
		if prefixes[key] == nil {
			prefixes[key] = &Prefix{Prefix: a.prefix(key), RTT: Histogram{Width: a.how.BinWidth}}
		}
		return prefixes[key]
	}
	var key bpf.MonitorAddress
	var traffic []bpf.MonitorTrafficEntry
	entries := a.kernel.Maps[bpf.MonitorMapPrefixTraffic].Iterate()
	for entries.Next(&key, &traffic) {
		for cpu := range traffic {
			if p := &traffic[cpu].Periods[period&1]; p.Period == period {
				at(key).add(p)
			}
		}
	}
	var rtts bpf.MonitorRttEntry
	histograms := a.kernel.Maps[bpf.MonitorMapPrefixRtts].Iterate()
	for histograms.Next(&key, &rtts) {
		if p := &rtts.Periods[period&1]; p.Period == period {
			at(key).RTT = newHistogram(p, a.how.BinWidth)
		}
	}
	return prefixes, errors.Join(entries.Err(), histograms.Err())
}

// add counts one CPU's traffic.
func (p *Prefix) add(t *bpf.MonitorTrafficPeriod) {
	p.Received = p.Received.plus(&t.Received)
	p.Sent = p.Sent.plus(&t.Sent)
	p.Retransmissions += t.Retransmissions
}

func (t PrefixTraffic) plus(classes *[bpf.MonitorTrafficClassTRAFFIC_CLASSES]bpf.MonitorTraffic) PrefixTraffic {
	add := func(t Traffic, class bpf.MonitorTrafficClass) Traffic {
		return t.plus(Traffic{classes[class].Packets, classes[class].Bytes})
	}
	return PrefixTraffic{
		TCPTimestamps: add(t.TCPTimestamps, bpf.MonitorTrafficClassTRAFFIC_TCP_TIMESTAMPS),
		TCPPlain:      add(t.TCPPlain, bpf.MonitorTrafficClassTRAFFIC_TCP_PLAIN),
		Other:         add(t.Other, bpf.MonitorTrafficClassTRAFFIC_OTHER),
	}
}

// prefix is the prefix of a key.
func (a *aggregator) prefix(key bpf.MonitorAddress) netip.Prefix {
	addr := netip.AddrFrom16(key.Bytes).Unmap()
	bits := a.how.IPv6Prefix
	if addr.Is4() {
		bits = a.how.IPv4Prefix
	}
	if addr.IsUnspecified() {
		bits = 0
	}
	return netip.PrefixFrom(addr, bits)
}

// forget deletes prefixes that had no traffic for the timeout.
func (a *aggregator) forget(active map[bpf.MonitorAddress]*Prefix, now time.Time) error {
	for key := range active {
		a.active[key] = now
	}
	if a.how.Timeout == 0 {
		return nil
	}
	for key, last := range a.active {
		if now.Sub(last) < a.how.Timeout || slices.Contains(wholeFamilies, key) {
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
