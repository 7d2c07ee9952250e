package bpf

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Limits are the capacities of the maps. A map whose feature is off in the settings is created with one entry.
type Limits struct {
	Flows          uint32 // flows at a time
	Queries        uint32 // queries of DNS, NTP and STUN that wait for their response at a time
	Stamps         uint32 // packets that wait for their reply at a time; rounded up to a power of two
	Prefixes       uint32 // at a time
	GroupPrefixes  uint32 // that belong to groups
	LocalAddresses uint32 // addresses of this host
	RingBytes      uint32 // of events on their way to user space; a power of two and a multiple of the page size
}

// groupAnswers is the number of addresses whose group is known without a look at all groups.
const groupAnswers = 65536

// queryShares is how many peers it takes to fill the table of queries.
const queryShares = 8

// connectionPart is how many flows there may be for each QUIC connection that can be followed to other addresses.
const connectionPart = 4

// stampWays is the number of stamps in an element of the stamps map.
const stampWays = len(MonitorStampSet{}.Tag)

// Monitor is the loaded programs and their maps.
type Monitor struct {
	*ebpf.Collection
}

// Load creates the maps and loads the named programs (MonitorProg…), specialised for the settings.
func Load(settings MonitorSettings, limits Limits, programs ...string) (*Monitor, error) {
	spec, err := LoadMonitor()
	if err != nil {
		return nil, err
	}
	if err := keep(spec, programs); err != nil {
		return nil, err
	}
	settings.StampSets, settings.RecentFlows = sets(limits.Stamps), powerOfTwo(limits.Flows)
	settings.QueryShare = max(limits.Queries/queryShares, 1)
	if err := spec.Variables[MonitorVarConfig].Set(settings); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	size(spec, settings, limits)
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, explain(err)
	}
	return &Monitor{c}, nil
}

// keep removes the programs that are not named.
func keep(spec *ebpf.CollectionSpec, programs []string) error {
	kept := make(map[string]*ebpf.ProgramSpec)
	for _, name := range programs {
		if kept[name] = spec.Programs[name]; kept[name] == nil {
			return fmt.Errorf("no program %q", name)
		}
	}
	spec.Programs = kept
	return nil
}

func sets(stamps uint32) uint32 {
	ways := uint32(stampWays)
	return powerOfTwo((stamps + ways - 1) / ways)
}

// powerOfTwo returns the lowest power of two that is at least n.
func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(max(n, 1)-1) }

// RTTKinds returns the flags of the histograms that an aggregate may have with these settings.
func RTTKinds(s MonitorSettings) []uint8 {
	kinds := []uint8{0}
	add := func(used bool, flag MonitorPrefixFlag) {
		for _, kind := range kinds {
			if used {
				kinds = append(kinds, kind|uint8(flag))
			}
		}
	}
	add(s.Parts != 0, MonitorPrefixFlagPREFIX_TO_PEERS)
	add(s.Load != 0, MonitorPrefixFlagPREFIX_LOADED)
	if s.Dns != 0 || s.Ntp != 0 || s.Stun != 0 {
		kinds = append(kinds, uint8(MonitorPrefixFlagPREFIX_QUERIES))
	}
	if s.MeasuresOneDirection() {
		kinds = append(kinds, uint8(MonitorPrefixFlagPREFIX_ONE_DIRECTION))
	}
	return kinds
}

// MeasuresOneDirection reports whether there may be RTTs of flows with one direction seen. TCP flows begin with a SYN.
func (s *MonitorSettings) MeasuresOneDirection() bool { return s.Tcp != 0 && s.Syn != 0 || s.Quic != 0 }

// UnplacedRTTKinds returns the flags of the further histograms of aggregates that share one entry for lack of room.
func UnplacedRTTKinds(s MonitorSettings) []uint8 {
	if s.Load == 0 {
		return nil
	}
	// Queries, and RTTs of one direction, are not told apart by load (PREFIX_ANY_LOAD).
	s.Load, s.Dns, s.Ntp, s.Stun, s.Syn, s.Quic = 0, 0, 0, 0, 0, 0
	kinds := RTTKinds(s)
	for i := range kinds {
		kinds[i] |= uint8(MonitorPrefixFlagPREFIX_UNPLACED)
	}
	return kinds
}

func size(spec *ebpf.CollectionSpec, s MonitorSettings, l Limits) {
	set := func(name string, used bool, entries uint32) {
		if used {
			spec.Maps[name].MaxEntries = max(entries, 1)
		}
	}
	flows := s.Tcp != 0 || s.Icmp != 0 || s.Quic != 0
	set(MonitorMapFlows, flows, l.Flows)
	set(MonitorMapRecentFlows, flows, s.RecentFlows)
	set(MonitorMapConnections, s.Quic != 0, l.Flows/connectionPart)
	set(MonitorMapQueries, s.Dns != 0 || s.Ntp != 0 || s.Stun != 0, l.Queries)
	set(MonitorMapStamps, s.Tcp != 0 || s.Icmp != 0, s.StampSets)
	set(MonitorMapPrefixTraffic, s.Aggregate != 0, l.Prefixes+2) // and the two of all addresses
	set(MonitorMapPrefixRtts, s.Aggregate != 0,
		(l.Prefixes+2)*uint32(len(RTTKinds(s)))+2*uint32(len(UnplacedRTTKinds(s))))
	set(MonitorMapPrefixLoads, s.Aggregate != 0 && s.Load != 0, l.Prefixes+2)
	set(MonitorMapGroups, s.Groups != 0, l.GroupPrefixes)
	set(MonitorMapGroupAnswers, s.Groups != 0, groupAnswers)
	set(MonitorMapLocalAddresses, s.Local == 0, l.LocalAddresses)
	set(MonitorMapEvents, s.Events != 0, l.RingBytes)
}

// explain adds advice to an error in loading.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("load BPF programs: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: %w",
			unix.EPERM)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("load BPF programs: this kernel is too old, or was built without what they need: %w", err)
	}
	return fmt.Errorf("load BPF programs: %w", err)
}

// SetClock sets the time of the next packet, in nanoseconds, and its length on the wire. The programs use it with
// MonitorSettings.Replay.
func (m *Monitor) SetClock(now uint64, length int) error {
	return m.Variables[MonitorVarReplay].Set(MonitorReplayed{Now: now, Length: uint32(length)})
}

// Counters returns the counters, summed over all CPUs.
func (m *Monitor) Counters() (MonitorCounterSet, error) {
	var sum MonitorCounterSet
	var each []MonitorCounterSet
	if err := m.Maps[MonitorMapCounters].Lookup(uint32(0), &each); err != nil {
		return sum, fmt.Errorf("read counters: %w", err)
	}
	for _, c := range each {
		for i := range c.Outcome {
			sum.Outcome[i] += c.Outcome[i]
		}
		for i := range c.Tally {
			sum.Tally[i] += c.Tally[i]
		}
		for i := range c.Transport {
			sum.Transport[i].Packets += c.Transport[i].Packets
			sum.Transport[i].Bytes += c.Transport[i].Bytes
		}
		for i := range c.Ecn {
			sum.Ecn[i].Packets += c.Ecn[i].Packets
			sum.Ecn[i].Bytes += c.Ecn[i].Bytes
		}
	}
	return sum, nil
}
