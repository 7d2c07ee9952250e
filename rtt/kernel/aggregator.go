package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"sluice/rtt/bpf"
	"sluice/rtt/groups"
	"sluice/rtt/report"
)

// AggregatorConfig has the settings of the programs that an Aggregator needs.
type AggregatorConfig struct {
	report.Aggregation
	Groups     groups.Table      // nil: aggregates are prefixes of one length
	Limit      int               // the number of aggregates that there is room for
	Kinds      []uint8           // of RTTs: bpf.RTTKinds
	Unplaced   []uint8           // further ones of aggregates without room: bpf.UnplacedRTTKinds
	Interfaces map[uint32]string // names by index, if they tell aggregates apart
}

// An Aggregator reads the programs' aggregates, period by period.
type Aggregator struct {
	kernel   *bpf.Monitor
	config   AggregatorConfig
	period   uint32
	start    time.Time
	counters bpf.MonitorCounterSet
	active   map[bpf.MonitorPrefixKey]time.Time // end of the last interval with traffic
	rest     []bpf.MonitorPrefixKey             // keys of aggregates without room or group
	groups   *groupTable                        // nil: aggregates are prefixes of one length
	traffic  *batches[bpf.MonitorTrafficEntry]
	rtts     *batches[bpf.MonitorRttEntry]
}

// NewAggregator starts the first period. It adds the prefixes of all IPv4 and of all IPv6 addresses, where the programs
// count prefixes that they have no room for; or, if the configuration has groups, one prefix for all other addresses.
func NewAggregator(kernel *bpf.Monitor, config AggregatorConfig) (*Aggregator, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	a := &Aggregator{
		kernel: kernel, config: config, active: make(map[bpf.MonitorPrefixKey]time.Time),
		rest:    []bpf.MonitorPrefixKey{{}, {Flags: uint8(bpf.MonitorPrefixFlagPREFIX_IPV6)}},
		traffic: newBatches[bpf.MonitorTrafficEntry](kernel.Maps[bpf.MonitorMapPrefixTraffic], cpus),
		rtts:    newBatches[bpf.MonitorRttEntry](kernel.Maps[bpf.MonitorMapPrefixRtts], 1),
	}
	if config.Groups != nil {
		a.rest = a.rest[:1]
		a.groups = newGroupTable(kernel.Maps[bpf.MonitorMapGroups], a.nextGroups, config.Limit)
		if err := a.groups.load(config.Groups); err != nil {
			return nil, err
		}
	}
	for _, key := range a.rest {
		if err := a.add(key, slices.Concat(config.Kinds, config.Unplaced)); err != nil {
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

// add adds entries for a key, with RTTs of some kinds.
func (a *Aggregator) add(key bpf.MonitorPrefixKey, kinds []uint8) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	traffic := a.kernel.Maps[bpf.MonitorMapPrefixTraffic].Put(key, make([]bpf.MonitorTrafficEntry, cpus))
	errs := []error{traffic}
	for _, kind := range kinds {
		of := key
		of.Flags |= kind
		errs = append(errs, a.kernel.Maps[bpf.MonitorMapPrefixRtts].Put(of, bpf.MonitorRttEntry{}))
	}
	return errors.Join(errs...)
}

func (a *Aggregator) nextPeriod() error {
	a.period++
	return a.kernel.Variables[bpf.MonitorVarPeriod].Set(a.period)
}

// Begin sets when the first period began.
func (a *Aggregator) Begin(now time.Time) { a.start = now }

// Turn ends the current period and returns its aggregates. A program that is running may still count for the period
// that ended: Turn calls settle before it reads, which waits until such programs have returned.
func (a *Aggregator) Turn(now time.Time, settle func()) (*report.Interval, error) {
	ended := a.period
	if err := a.nextPeriod(); err != nil {
		return nil, fmt.Errorf("start a period: %w", err)
	}
	settle()
	i := &report.Interval{Aggregation: &a.config.Aggregation, Start: a.start, End: now}
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
	slices.SortFunc(i.Prefixes, func(x, y report.Prefix) int { return x.Compare(&y) })
	return i, errors.Join(a.forget(prefixes, now), a.forgetGroups())
}

// read returns the values of a period, by key. Entries without values are left out.
func (a *Aggregator) read(period uint32) (map[bpf.MonitorPrefixKey]*report.Prefix, error) {
	prefixes := make(map[bpf.MonitorPrefixKey]*report.Prefix)
	at := func(key bpf.MonitorPrefixKey) *report.Prefix {
		if prefixes[key] == nil {
			prefixes[key] = a.newPrefix(key)
		}
		return prefixes[key]
	}
	err := a.traffic.each(func(key bpf.MonitorPrefixKey, traffic []bpf.MonitorTrafficEntry) {
		for cpu := range traffic {
			if d := &traffic[cpu].Sent[period&1]; d.Period == period {
				at(key).Sent = at(key).Sent.Plus(newPrefixTraffic(d))
			}
			if d := &traffic[cpu].Received[period&1]; d.Period == period {
				at(key).Received = at(key).Received.Plus(newPrefixTraffic(d))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	err = a.rtts.each(func(key bpf.MonitorPrefixKey, rtts []bpf.MonitorRttEntry) {
		if p := &rtts[0].Periods[period&1]; p.Period == period {
			kind := key.Flags & rttFlags
			key.Flags &^= rttFlags
			prefix := at(key)
			a.addRTTs(prefix, kind, newHistogram(p, a.config.BinWidth))
			prefix.Sent.QUIC = prefix.Sent.QUIC.Plus(newLoss(&p.Sent))
			prefix.Received.QUIC = prefix.Received.QUIC.Plus(newLoss(&p.Received))
		}
	})
	return prefixes, err
}

const rttFlags = uint8(bpf.MonitorPrefixFlagPREFIX_RTT_FLAGS)

// addRTTs adds a histogram of one kind.
func (a *Aggregator) addRTTs(p *report.Prefix, kind uint8, h report.Histogram) {
	switch {
	case kind&uint8(bpf.MonitorPrefixFlagPREFIX_QUERIES) != 0:
		p.Queries.Add(&h)
		return
	case kind&uint8(bpf.MonitorPrefixFlagPREFIX_ONE_DIRECTION) != 0:
		p.OneDirection.Add(&h)
		return
	}
	all, load := &p.RTT, &p.ByLoad
	if kind&uint8(bpf.MonitorPrefixFlagPREFIX_TO_PEERS) != 0 {
		all, load = &p.PeerRTT, &p.PeerByLoad
	}
	if a.config.Load != 0 && kind&uint8(bpf.MonitorPrefixFlagPREFIX_UNPLACED) == 0 {
		one := &load.Idle
		if kind&uint8(bpf.MonitorPrefixFlagPREFIX_LOADED) != 0 {
			one = &load.Loaded
		}
		one.Add(&h)
	}
	all.Add(&h)
}

func newLoss(l *bpf.MonitorLoss) report.Loss {
	return report.Loss{All: l.All, Passed: l.Passed, Reported: l.Reported}
}

// newPrefixTraffic returns the counts of one CPU in one direction.
func newPrefixTraffic(d *bpf.MonitorDirection) report.PrefixTraffic {
	of := func(class bpf.MonitorTrafficClass) report.Traffic {
		return report.Traffic{Packets: d.Traffic[class].Packets, Bytes: d.Traffic[class].Bytes}
	}
	return report.PrefixTraffic{
		TCPTimestamps:   of(bpf.MonitorTrafficClassTRAFFIC_TCP_TIMESTAMPS),
		TCPPlain:        of(bpf.MonitorTrafficClassTRAFFIC_TCP_PLAIN),
		Other:           of(bpf.MonitorTrafficClassTRAFFIC_OTHER),
		Retransmissions: uint64(d.Retransmissions),
		ECNCapable:      uint64(d.EcnCapable),
		ECNMarked:       uint64(d.EcnMarked),
	}
}

// forget deletes prefixes without traffic for the timeout.
func (a *Aggregator) forget(active map[bpf.MonitorPrefixKey]*report.Prefix, now time.Time) error {
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
		if err := a.remove(key); err != nil {
			return err
		}
	}
	return nil
}

// forgetGroups deletes aggregates of groups that are not in the table any more, once nothing of them is left to be
// read. Of each aggregate in the kernel some period was read, so all of them are active.
func (a *Aggregator) forgetGroups() error {
	if a.groups == nil {
		return nil
	}
	return a.groups.endPeriod(func(numbers map[uint32]bool) error {
		for key := range a.active {
			if !numbers[uint32(key.Prefix)] && !(a.config.By.Pair && numbers[uint32(key.Peer)]) {
				continue
			}
			if err := a.remove(key); err != nil {
				return err
			}
			delete(a.active, key)
		}
		return nil
	})
}

// remove deletes the entries of a key.
func (a *Aggregator) remove(key bpf.MonitorPrefixKey) error {
	errs := []error{
		a.kernel.Maps[bpf.MonitorMapPrefixTraffic].Delete(key), a.kernel.Maps[bpf.MonitorMapPrefixLoads].Delete(key),
	}
	for _, kind := range a.config.Kinds {
		of := key
		of.Flags |= kind
		errs = append(errs, a.kernel.Maps[bpf.MonitorMapPrefixRtts].Delete(of))
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// newPrefix returns the prefix of a key, without values.
func (a *Aggregator) newPrefix(key bpf.MonitorPrefixKey) *report.Prefix {
	p := &report.Prefix{
		VLAN: report.VLAN{ID: key.Vlan, Inner: key.InnerVlan}, RTT: report.Histogram{Width: a.config.BinWidth},
	}
	if a.groups != nil {
		p.Group = a.groups.name(uint32(key.Prefix))
	} else {
		p.Prefix = a.prefix(key, key.Prefix, bpf.MonitorPrefixFlagPREFIX_IPV6)
	}
	if a.config.By.Pair {
		p.Peer = a.peer(key)
	}
	if key.Interface != 0 {
		p.Interface = a.interfaceName(key.Interface)
	}
	if key.Transport != 0 {
		p.Protocol = transportNames[key.Transport]
	}
	return p
}

// peer returns the prefix or the group at the other end.
func (a *Aggregator) peer(key bpf.MonitorPrefixKey) string {
	switch {
	case a.groups != nil:
		return a.groups.name(uint32(key.Peer))
	case key == a.rest[len(a.rest)-1]:
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0).String() // its flags tell nothing of the peers
	}
	return a.prefix(key, key.Peer, bpf.MonitorPrefixFlagPREFIX_PEER_IPV6).String()
}

// prefix returns the prefix of a number in a key, which is one of IPv6 if the key has the flag.
func (a *Aggregator) prefix(key bpf.MonitorPrefixKey, number uint64, ipv6 bpf.MonitorPrefixFlag) netip.Prefix {
	addr, bits := address4(number), a.config.IPv4Prefix
	if key.Flags&uint8(ipv6) != 0 {
		addr, bits = address6(number), a.config.IPv6Prefix
	}
	if addr.IsUnspecified() {
		bits = 0
	}
	return netip.PrefixFrom(addr, bits)
}

func (a *Aggregator) interfaceName(index uint32) string {
	if name, ok := a.config.Interfaces[index]; ok {
		return name
	}
	return fmt.Sprintf("interface %d", index)
}

// newHistogram returns a histogram of the kernel's counts.
func newHistogram(p *bpf.MonitorRttPeriod, width time.Duration) report.Histogram {
	h := report.Histogram{Width: width}
	used := report.MaxBins(width)
	for used > 0 && p.Bins[used-1] == 0 {
		used--
	}
	if used == 0 { // also while a program, whose CPU has paused, is adding the first RTT
		return h
	}
	h.Count, h.Sum = uint64(p.Count), time.Duration(p.Sum)
	h.Min, h.Max = time.Duration(p.Min), time.Duration(p.Max)
	for _, n := range p.Bins[:used] {
		h.Bins = append(h.Bins, uint64(n))
	}
	return h
}

func address4(number uint64) netip.Addr {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], uint32(number))
	return netip.AddrFrom4(b)
}

func address6(upperHalf uint64) netip.Addr {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], upperHalf)
	return netip.AddrFrom16(b)
}
