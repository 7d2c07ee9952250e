package rtt

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"sluice/internal/bounds"
	"sluice/rtt/attach"
	"sluice/rtt/groups"
	"sluice/rtt/report"
)

// Defaults and limits of MonitorConfig.
const (
	DefaultRateLimit       = 100 * time.Millisecond
	DefaultCleanupInterval = time.Second
	DefaultMaxFlows        = 131072
	DefaultMaxStamps       = 262144
	DefaultMaxQueries      = 65536
	DefaultMaxPrefixes     = 16384
	DefaultRingBytes       = 4 << 20

	DefaultIPv4Prefix       = 24
	DefaultIPv6Prefix       = 48
	DefaultAggregateTimeout = 30 * time.Second

	// WholeFamily is the length of the prefix of all IPv4 or all IPv6 addresses.
	WholeFamily = -1

	maxEntries  = 1 << 24 // a flow table of this size takes 5 GiB
	maxRTTRate  = 10000
	maxLoad     = 1 << 40 // bytes in a second
	maxInterval = 24 * time.Hour
	minRing     = 4096
	maxRing     = 1 << 30
)

// RTTType is the RTT of a flow that Config.RTTRate multiplies.
type RTTType string

// RTT types.
const (
	RTTMin      RTTType = "min"
	RTTSmoothed RTTType = "smoothed"
)

// MonitorConfig configures a Monitor. Zero values are the defaults.
type MonitorConfig struct {
	Interfaces []string
	Hook       attach.Hook    // "": attach.HookTC
	XDPMode    attach.XDPMode // "": attach.XDPNative
	// MergeInterfaces is set if a flow's packets may come and go by different interfaces, VLANs or VNIs, as with
	// parallel links. Otherwise each of these is an observer of its own.
	MergeInterfaces bool
	Tunnels         bool // measure packets in tunnels, too
	Promiscuous     bool // take packets that are for others, too

	TCP, ICMP, DNS, QUIC, NTP, STUN bool // measured protocols; none: TCP

	Quiet bool // report neither RTTs nor flows: Monitor.Flows reads them

	RateLimit    time.Duration // least time between stamps of one side of a flow; 0: DefaultRateLimit, negative: none
	RTTRate      float64       // the same as a multiple of the flow's RTT, once that is known; 0: RateLimit applies
	RTTType      RTTType       // "": RTTMin
	IncludeSYN   bool          // measure SYNs, which then create flows
	IncludeLocal bool          // also measure packets that arrive for this host: its own delay

	// CleanupInterval is the time between removals of entries that have timed out. 0: DefaultCleanupInterval, negative:
	// never.
	CleanupInterval time.Duration

	// Aggregate is how often histograms of network prefixes are reported, instead of RTTs and flows. 0: not at all.
	Aggregate        time.Duration
	AggregateReverse bool          // by the destination of replies instead of their source
	AggregateTimeout time.Duration // drops prefixes without traffic; 0: DefaultAggregateTimeout, negative: never
	IPv4Prefix       int           // 1 to 32 bits, or WholeFamily; 0: DefaultIPv4Prefix
	IPv6Prefix       int           // 1 to 64 bits, or WholeFamily; 0: DefaultIPv6Prefix
	Groups           groups.Table  // aggregate by these groups of prefixes; nil: by prefixes of the lengths above
	AggregateBy      report.Keys   // keys of aggregates besides their prefix or group
	AggregateParts   bool          // also by the destination of replies: both parts of the path
	AggregateLoad    uint64        // bytes in a second from which on a prefix is under load; 0: not told apart
	BinWidth         time.Duration // of the histograms; 0: they are logarithmic
	CountTraffic     bool          // count packets by protocol and ECN, as with Aggregate
	MaxPrefixes      int           // at a time; further ones are counted together; 0: DefaultMaxPrefixes

	MaxFlows   int // at a time; 0: DefaultMaxFlows
	MaxStamps  int // packets that wait for a reply at a time; 0: DefaultMaxStamps
	MaxQueries int // queries of DNS, NTP and STUN that wait for a response at a time; 0: DefaultMaxQueries
	RingBytes  int // of events on their way to user space, rounded up to a power of two of pages; 0: DefaultRingBytes

	Sink   report.Sink  // takes samples, flow events and intervals
	Logger *slog.Logger // nil: slog.Default()
}

// Replayed counts the packets of a capture.
type Replayed struct {
	Packets uint64
	Skipped uint64 // with an unknown link type, or an IP header that was not captured
}

// setDefaults replaces zero values.
func (c *MonitorConfig) setDefaults() {
	c.Hook = cmp.Or(c.Hook, attach.HookTC)
	c.XDPMode = cmp.Or(c.XDPMode, attach.XDPNative)
	c.RTTType = cmp.Or(c.RTTType, RTTMin)
	c.RateLimit = cmp.Or(c.RateLimit, DefaultRateLimit)
	c.CleanupInterval = cmp.Or(c.CleanupInterval, DefaultCleanupInterval)
	c.MaxFlows = cmp.Or(c.MaxFlows, DefaultMaxFlows)
	c.MaxStamps = cmp.Or(c.MaxStamps, DefaultMaxStamps)
	c.MaxQueries = cmp.Or(c.MaxQueries, DefaultMaxQueries)
	c.MaxPrefixes = cmp.Or(c.MaxPrefixes, DefaultMaxPrefixes)
	c.IPv4Prefix = cmp.Or(c.IPv4Prefix, DefaultIPv4Prefix)
	c.IPv6Prefix = cmp.Or(c.IPv6Prefix, DefaultIPv6Prefix)
	c.AggregateTimeout = cmp.Or(c.AggregateTimeout, DefaultAggregateTimeout)
	c.RingBytes = cmp.Or(c.RingBytes, DefaultRingBytes)
	if !c.TCP && !c.ICMP && !c.DNS && !c.QUIC && !c.NTP && !c.STUN {
		c.TCP = true
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
}

// Check returns the first mistake in a configuration whose Sink comes later. Errors name the flags of sluice rtt.
func (c *MonitorConfig) Check() error {
	checked := *c
	checked.Sink = report.Tee{}
	checked.setDefaults()
	return checked.validate()
}

// validate checks a configuration that has its defaults.
func (c *MonitorConfig) validate() error {
	if c.Sink == nil {
		return errors.New("field Sink: must not be nil")
	}
	return cmp.Or(
		bounds.OneOf("--ingress-hook", string(c.Hook), "tc", "tcx", "clsact", "xdp"),
		bounds.OneOf("--xdp-mode", string(c.XDPMode), "unspecified", "native", "generic"),
		bounds.OneOf("--rtt-type", string(c.RTTType), "min", "smoothed"),
		bounds.Check("--rtt-rate", c.RTTRate, 0, maxRTTRate),
		bounds.Check("--rate-limit", max(c.RateLimit, 0), 0, maxInterval),
		c.validateAggregation(),
		bounds.Check("--max-flows", c.MaxFlows, 1, maxEntries),
		bounds.Check("--max-stamps", c.MaxStamps, 1, maxEntries),
		bounds.Check("--max-queries", c.MaxQueries, 1, maxEntries),
		bounds.Check("--max-prefixes", c.MaxPrefixes, 1, maxEntries),
		bounds.Check("--ring-size", c.RingBytes, minRing, maxRing),
	)
}

func (c *MonitorConfig) validateAggregation() error {
	if c.Aggregate != 0 {
		if err := bounds.Check("--aggregate", c.Aggregate, time.Second, maxInterval); err != nil {
			return err
		}
	}
	if c.BinWidth != 0 {
		if err := bounds.Check("--bin-width", c.BinWidth, time.Microsecond, time.Hour); err != nil {
			return err
		}
	}
	if c.AggregateBy.VLAN && c.Hook == attach.HookXDP {
		return errors.New("--aggregate-by vlan: XDP may not see VLANs: must be with --ingress-hook tc")
	}
	if c.AggregateParts && c.AggregateReverse {
		return errors.New("--aggregate-parts has what --aggregate-reverse has: choose one of them")
	}
	if c.AggregateParts && c.AggregateBy.Pair {
		return errors.New("--aggregate-by pair lists both parts of a path: leave out --aggregate-parts")
	}
	return cmp.Or(
		bounds.Check("--aggregate-load", c.AggregateLoad, 0, maxLoad),
		bounds.Check("--aggregate-subnets-v4", prefixBits(c.IPv4Prefix), 0, 32),
		bounds.Check("--aggregate-subnets-v6", prefixBits(c.IPv6Prefix), 0, 64),
	)
}

// prefixBits returns the length of a prefix as a user writes it.
func prefixBits(n int) int {
	if n == WholeFamily {
		return 0
	}
	return n
}
