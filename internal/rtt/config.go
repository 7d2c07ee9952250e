package rtt

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Defaults and limits of Config.
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
	DefaultBinWidth         = 4 * time.Millisecond

	// WholeFamily, as the length of a prefix, is that of all addresses of a family.
	WholeFamily = -1

	maxEntries  = 1 << 24 // a flow table of this size takes 5 GiB
	maxRTTRate  = 10000
	maxInterval = 24 * time.Hour
)

// Hook says where packets are seen.
type Hook string

// Hooks.
const (
	HookTC     Hook = "tc"     // TCX, or clsact on kernels before 6.6
	HookTCX    Hook = "tcx"    // only TCX
	HookClsact Hook = "clsact" // only clsact
	HookXDP    Hook = "xdp"    // arriving packets by XDP, leaving ones as with HookTC
)

// XDPMode says how the XDP program is attached.
type XDPMode string

// XDP modes.
const (
	XDPUnspecified XDPMode = "unspecified" // the kernel chooses
	XDPNative      XDPMode = "native"
	XDPGeneric     XDPMode = "generic"
)

// RTTType says which RTT of a flow Config.RTTRate multiplies.
type RTTType string

// RTT types.
const (
	RTTMin      RTTType = "min"
	RTTSmoothed RTTType = "smoothed"
)

// Config says what to measure and how. Zero values are the defaults.
type Config struct {
	Interfaces []string
	Hook       Hook    // "": HookTC
	XDPMode    XDPMode // "": XDPNative
	// MergeInterfaces makes one flow of packets that come and go by different interfaces or VLANs, as with parallel links.
	// Otherwise each interface and VLAN is an observer of its own.
	MergeInterfaces bool

	TCP, ICMP, DNS, QUIC bool // what is measured; none: TCP

	Quiet bool // report neither RTTs nor flows: they are read by Monitor.Flows

	RateLimit    time.Duration // least time between stamps of one side of a flow; 0: DefaultRateLimit, negative: none
	RTTRate      float64       // the same as a multiple of the flow's RTT, once one is known; 0: RateLimit rules
	RTTType      RTTType       // "": RTTMin
	IncludeSYN   bool          // measure SYNs, which then create flows
	IncludeLocal bool          // measure what arrives for this host, too: its own delay

	CleanupInterval time.Duration // how often the tables are searched for what has timed out; 0: DefaultCleanupInterval, negative: never

	Aggregate        time.Duration // report histograms of network prefixes this often, instead of RTTs and flows; 0: do not
	AggregateReverse bool          // by the destination of replies instead of their source
	AggregateTimeout time.Duration // forget a prefix without traffic for so long; 0: DefaultAggregateTimeout, negative: never
	IPv4Prefix       int           // 1 to 32 bits; 0: DefaultIPv4Prefix
	IPv6Prefix       int           // 1 to 64 bits; 0: DefaultIPv6Prefix
	BinWidth         time.Duration // of the histograms; 0: DefaultBinWidth
	CountTraffic     bool          // count packets by protocol and ECN, as with Aggregate
	MaxPrefixes      int           // at a time, the others are counted together; 0: DefaultMaxPrefixes

	MaxFlows   int // at a time; 0: DefaultMaxFlows
	MaxStamps  int // packets waiting for a reply at a time; 0: DefaultMaxStamps
	MaxQueries int // DNS queries waiting for a response at a time; 0: DefaultMaxQueries
	RingBytes  int // of events waiting for userspace, rounded up to a power of two of pages; 0: DefaultRingBytes

	Sink   Sink         // takes what is measured
	Logger *slog.Logger // nil: slog.Default()
}

// setDefaults replaces zero values.
func (c *Config) setDefaults() {
	def(&c.Hook, HookTC)
	def(&c.XDPMode, XDPNative)
	def(&c.RTTType, RTTMin)
	def(&c.RateLimit, DefaultRateLimit)
	def(&c.CleanupInterval, DefaultCleanupInterval)
	def(&c.MaxFlows, DefaultMaxFlows)
	def(&c.MaxStamps, DefaultMaxStamps)
	def(&c.MaxQueries, DefaultMaxQueries)
	def(&c.MaxPrefixes, DefaultMaxPrefixes)
	def(&c.IPv4Prefix, DefaultIPv4Prefix)
	def(&c.IPv6Prefix, DefaultIPv6Prefix)
	def(&c.AggregateTimeout, DefaultAggregateTimeout)
	def(&c.BinWidth, DefaultBinWidth)
	def(&c.RingBytes, DefaultRingBytes)
	if !c.TCP && !c.ICMP && !c.DNS && !c.QUIC {
		c.TCP = true
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

func def[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// validate says what is wrong with a Config that has its defaults.
func (c *Config) validate() error {
	switch {
	case c.Sink == nil:
		return errors.New("no sink takes what is measured")
	case c.Hook != HookTC && c.Hook != HookTCX && c.Hook != HookClsact && c.Hook != HookXDP:
		return fmt.Errorf("hook %q: choose tc, tcx, clsact or xdp", c.Hook)
	case c.XDPMode != XDPUnspecified && c.XDPMode != XDPNative && c.XDPMode != XDPGeneric:
		return fmt.Errorf("XDP mode %q: choose unspecified, native or generic", c.XDPMode)
	case c.RTTType != RTTMin && c.RTTType != RTTSmoothed:
		return fmt.Errorf("RTT type %q: choose min or smoothed", c.RTTType)
	case c.RTTRate < 0 || c.RTTRate > maxRTTRate || math.IsNaN(c.RTTRate):
		return fmt.Errorf("RTT rate %v: choose 0 to %d", c.RTTRate, maxRTTRate)
	case c.RateLimit > maxInterval:
		return fmt.Errorf("rate limit %v: at most %v", c.RateLimit, maxInterval)
	}
	if err := c.validateAggregation(); err != nil {
		return err
	}
	return c.validateSizes()
}

func (c *Config) validateAggregation() error {
	switch {
	case c.Aggregate != 0 && (c.Aggregate < time.Second || c.Aggregate > maxInterval):
		return fmt.Errorf("aggregation every %v: choose 1s to %v", c.Aggregate, maxInterval)
	case c.IPv4Prefix != WholeFamily && (c.IPv4Prefix < 1 || c.IPv4Prefix > 32):
		return fmt.Errorf("IPv4 prefixes of %d bits: choose 0 to 32", c.IPv4Prefix)
	case c.IPv6Prefix != WholeFamily && (c.IPv6Prefix < 1 || c.IPv6Prefix > 64):
		return fmt.Errorf("IPv6 prefixes of %d bits: choose 0 to 64", c.IPv6Prefix)
	case c.BinWidth < time.Microsecond || c.BinWidth > time.Hour:
		return fmt.Errorf("bins of %v: choose 1µs to 1h", c.BinWidth)
	}
	return nil
}

func (c *Config) validateSizes() error {
	for name, n := range map[string]int{"flows": c.MaxFlows, "stamps": c.MaxStamps, "queries": c.MaxQueries, "prefixes": c.MaxPrefixes} {
		if n < 1 || n > maxEntries {
			return fmt.Errorf("%d %s: choose 1 to %d", n, name, maxEntries)
		}
	}
	if c.RingBytes < 4096 || c.RingBytes > 1<<30 {
		return fmt.Errorf("a ring of %d bytes: choose 4096 to %d", c.RingBytes, 1<<30)
	}
	return nil
}
