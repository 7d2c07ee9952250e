package rtt

import (
	"encoding/binary"
	"math/bits"
	"os"

	"sluice/rtt/attach"
	"sluice/rtt/bpf"
	"sluice/rtt/kernel"
	"sluice/rtt/report"
)

// eventBatch is the number of events that a CPU collects before it hands them over.
const eventBatch = 16

// events reports whether RTTs and flows are reported one by one.
func (c *MonitorConfig) events() bool { return c.Aggregate == 0 && !c.Quiet }

// settings returns the configuration of the programs.
func (c *MonitorConfig) settings() bpf.MonitorSettings {
	return bpf.MonitorSettings{
		StampInterval: uint64(max(c.RateLimit, 0)),
		RttRate:       uint64(c.RTTRate * 1024),
		Tcp:           bit(c.TCP),
		Icmp:          bit(c.ICMP),
		Dns:           bit(c.DNS),
		Quic:          bit(c.QUIC),
		Ntp:           bit(c.NTP),
		Stun:          bit(c.STUN),
		Syn:           bit(c.IncludeSYN),
		Local:         bit(c.IncludeLocal),
		Smoothed:      bit(c.RTTType == RTTSmoothed),
		Merge:         bit(c.MergeInterfaces),
		Vlans:         bit(c.Hook != attach.HookXDP), // a device may remove the tag before XDP, and never before TC
		Events:        bit(c.events()),
		Aggregate:     bit(c.Aggregate > 0),
		Reverse:       bit(c.AggregateReverse),
		Groups:        bit(c.Groups != nil),
		Traffic:       bit(c.Aggregate > 0 || c.CountTraffic),
		BinWidth:      uint64(c.BinWidth),
		Load:          c.AggregateLoad,
		ByPair:        bit(c.AggregateBy.Pair),
		ByVlan:        bit(c.AggregateBy.VLAN),
		ByInterface:   bit(c.AggregateBy.Interface),
		ByTransport:   bit(c.AggregateBy.Protocol),
		Parts:         bit(c.AggregateParts),
		Tunnels:       bit(c.Tunnels),
		Ipv4Mask:      mask4(c.IPv4Prefix),
		Ipv6Mask:      mask6(c.IPv6Prefix),
		Batch:         eventBatch,
	}
}

// mask4 returns the mask of a prefix in network order.
func mask4(bits int) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(uint64(1<<32-1)<<(32-max(bits, 0))))
	return binary.NativeEndian.Uint32(b[:])
}

// mask6 returns the upper half of the mask of a prefix in network order.
func mask6(bits int) uint64 {
	var b [8]byte
	if bits > 0 {
		binary.BigEndian.PutUint64(b[:], ^uint64(0)<<(64-bits))
	}
	return binary.NativeEndian.Uint64(b[:])
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// maxLocalAddresses is more than a host usually has. Packets to further addresses are measured like others.
const maxLocalAddresses = 4096

func (c *MonitorConfig) limits() bpf.Limits {
	ring := max(c.RingBytes, os.Getpagesize())
	return bpf.Limits{
		Flows:          uint32(c.MaxFlows),
		Stamps:         uint32(c.MaxStamps),
		Queries:        uint32(c.MaxQueries),
		Prefixes:       uint32(c.MaxPrefixes),
		GroupPrefixes:  kernel.GroupPrefixes,
		LocalAddresses: maxLocalAddresses,
		RingBytes:      1 << bits.Len(uint(ring-1)),
	}
}

func (c *MonitorConfig) aggregation() report.Aggregation {
	settings := c.settings()
	return report.Aggregation{
		Every:      c.Aggregate,
		Timeout:    max(c.AggregateTimeout, 0),
		BinWidth:   c.BinWidth,
		IPv4Prefix: max(c.IPv4Prefix, 0),
		IPv6Prefix: max(c.IPv6Prefix, 0),
		By:         c.AggregateBy,
		Parts:      c.AggregateParts,
		Load:       c.AggregateLoad,

		OneDirection: settings.MeasuresOneDirection(),
	}
}

// newAggregator takes the names of interfaces by their index.
func (c *MonitorConfig) newAggregator(k *kernel.Programs, interfaces map[uint32]string) (*kernel.Aggregator, error) {
	return kernel.NewAggregator(k.Monitor, kernel.AggregatorConfig{
		Aggregation: c.aggregation(), Groups: c.Groups, Limit: c.MaxPrefixes, Interfaces: interfaces,
		Kinds: bpf.RTTKinds(c.settings()), Unplaced: bpf.UnplacedRTTKinds(c.settings()),
	})
}
