package command

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"sluice/internal/bounds"
	"sluice/rtt"
	"sluice/rtt/attach"
	"sluice/rtt/groups"
	"sluice/rtt/report"
)

// measureFlags are the flags that sluice-rtt and sluice-rtt top share. A 0 means "off" to the user, but the default in
// rtt.MonitorConfig: config translates it.
type measureFlags struct {
	cfg       rtt.MonitorConfig
	rateLimit float64 // ms
	cleanup   float64 // s
	timeout   float64 // s
	binWidth  float64 // ms
	groups    string
	by        []string // keys of aggregates
	load      float64  // Mbit/s
}

func (f *measureFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&f.cfg.Interfaces, "interface", "i", nil, "watch these `interfaces`")
	f.registerProtocols(flags)
	f.registerSampling(flags)
	f.registerAggregation(flags)
	f.registerHooks(flags)
	f.registerSizes(flags)
	registerForEPPing(flags)
}

// registerForEPPing makes flags understand ePPing's other spellings, and its options that we do not need.
func registerForEPPing(flags *pflag.FlagSet) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "include-SYN" {
			name = "include-syn"
		}
		return pflag.NormalizedName(name)
	})
	flags.BoolP("force", "f", false, "accepted as ePPing has it, without effect: programs of others are never replaced")
}

func (f *measureFlags) registerProtocols(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.cfg.TCP, "tcp", "T", false, "measure TCP (the default if no protocol is chosen)")
	flags.BoolVarP(&f.cfg.ICMP, "icmp", "C", false, "measure ICMP and ICMPv6 echo")
	flags.BoolVarP(&f.cfg.DNS, "dns", "D", false, "measure DNS over UDP and TCP, port 53")
	flags.BoolVarP(&f.cfg.QUIC, "quic", "Q", false, "measure QUIC by its handshake and spin bit")
	flags.BoolVar(&f.cfg.NTP, "ntp", false, "measure NTP between clients and servers, port 123")
	flags.BoolVar(&f.cfg.STUN, "stun", false, "measure STUN over UDP, as WebRTC uses it, on any port")
	flags.BoolFunc("all", "measure all of these", func(string) error {
		f.cfg.TCP, f.cfg.ICMP, f.cfg.DNS, f.cfg.QUIC, f.cfg.NTP, f.cfg.STUN = true, true, true, true, true, true
		return nil
	})
}

func (f *measureFlags) registerSampling(flags *pflag.FlagSet) {
	flags.Float64VarP(&f.rateLimit, "rate-limit", "r", milliseconds(rtt.DefaultRateLimit),
		"time one packet per flow direction in this many `ms`; 0: every one that can be timed")
	flags.Float64VarP(&f.cfg.RTTRate, "rtt-rate", "R", 0,
		"the same as a `multiple` of the flow's RTT, once it is known; 0: --rate-limit rules")
	flags.StringVarP((*string)(&f.cfg.RTTType), "rtt-type", "t", string(rtt.RTTMin),
		"the RTT that --rtt-rate multiplies (`type`): min or smoothed")
	flags.BoolVarP(&f.cfg.IncludeSYN, "include-syn", "s", false, "time SYNs too; a SYN flood then fills the flow table")
	flags.BoolVarP(&f.cfg.IncludeLocal, "include-local", "l", false, "time packets to this host too: its own delay")
}

func (f *measureFlags) registerAggregation(flags *pflag.FlagSet) {
	flags.IntVarP(&f.cfg.IPv4Prefix, "aggregate-subnets-v4", "4", rtt.DefaultIPv4Prefix,
		"aggregate IPv4 by prefixes of this many `bits`")
	flags.IntVarP(&f.cfg.IPv6Prefix, "aggregate-subnets-v6", "6", rtt.DefaultIPv6Prefix,
		"aggregate IPv6 by prefixes of this many `bits`")
	flags.BoolVar(&f.cfg.AggregateReverse, "aggregate-reverse", false,
		"aggregate by the destination of replies, not by their source")
	flags.StringVar(&f.groups, "aggregate-groups", "",
		"aggregate by groups of prefixes: this `file` has lines such as 192.0.2.0/24 NAME, and SIGHUP reads it again")
	flags.StringSliceVar(&f.by, "aggregate-by", nil,
		"tell aggregates apart by these `keys`, too: pair (the prefix at the other end), vlan, interface, protocol")
	flags.BoolVar(&f.cfg.AggregateParts, "aggregate-parts", false,
		"also report RTTs from here to those that the hosts of a prefix talk to: the other part of the path")
	flags.Float64Var(&f.load, "aggregate-load", 0,
		"tell RTTs under load apart: those after a second in which a prefix sent or received so many `Mbit`; 0: do not")
	flags.Float64Var(&f.timeout, "aggregate-timeout", rtt.DefaultAggregateTimeout.Seconds(),
		"forget prefixes without traffic for this many `seconds`; 0: never")
	flags.Float64Var(&f.binWidth, "bin-width", 0,
		"count RTTs in 250 bins of this many `ms`, as ePPing does with 4; 0: in logarithmic bins, 2.2 % wide")
}

func (f *measureFlags) registerHooks(flags *pflag.FlagSet) {
	flags.StringVarP((*string)(&f.cfg.Hook), "ingress-hook", "I", string(attach.HookTC),
		"see arriving packets at this `hook`: tc, tcx, clsact or xdp")
	flags.StringVarP((*string)(&f.cfg.XDPMode), "xdp-mode", "x", string(attach.XDPNative),
		"attach XDP in this `mode`: unspecified, native or generic")
	flags.BoolVar(&f.cfg.MergeInterfaces, "merge-interfaces", false,
		"flows may come and go by different interfaces, VLANs or VNIs")
	flags.BoolVar(&f.cfg.Promiscuous, "promiscuous", false,
		"take packets that are for others, too: for an interface at a mirror port")
	flags.BoolVar(&f.cfg.Tunnels, "tunnels", false,
		"look into tunnels: MPLS, IP in IP, GRE, EtherIP, VXLAN, GENEVE, GTP-U")
}

func (f *measureFlags) registerSizes(flags *pflag.FlagSet) {
	flags.Float64VarP(&f.cleanup, "cleanup-interval", "c", rtt.DefaultCleanupInterval.Seconds(),
		"remove entries that have timed out every this many `seconds`; 0: never")
	flags.IntVar(&f.cfg.MaxFlows, "max-flows", rtt.DefaultMaxFlows, "follow at most this many flows at a time")
	flags.IntVar(&f.cfg.MaxStamps, "max-stamps", rtt.DefaultMaxStamps, "wait for at most this many replies at a time")
	flags.IntVar(&f.cfg.MaxQueries, "max-queries", rtt.DefaultMaxQueries,
		"wait for at most this many responses of DNS, NTP and STUN at a time")
	flags.IntVar(&f.cfg.MaxPrefixes, "max-prefixes", rtt.DefaultMaxPrefixes,
		"aggregate at most this many prefixes at a time, the others together")
	flags.IntVar(&f.cfg.RingBytes, "ring-size", rtt.DefaultRingBytes,
		"buffer this many `bytes` of events on their way out of the kernel")
}

// check refuses values that rtt.MonitorConfig cannot hold, or takes for its default.
func (f *measureFlags) check() error {
	return cmp.Or(
		bounds.AtLeast("--rate-limit", f.rateLimit, 0),
		bounds.AtLeast("--cleanup-interval", f.cleanup, 0),
		bounds.AtLeast("--aggregate-timeout", f.timeout, 0),
		bounds.AtLeast("--aggregate-subnets-v4", f.cfg.IPv4Prefix, 0),
		bounds.AtLeast("--aggregate-subnets-v6", f.cfg.IPv6Prefix, 0),
		bounds.AtLeast("--bin-width", f.binWidth, 0),
		bounds.AtLeast("--aggregate-load", f.load, 0),
		f.checkKeys(),
		bounds.AtLeast("--max-flows", f.cfg.MaxFlows, 1),
		bounds.AtLeast("--max-stamps", f.cfg.MaxStamps, 1),
		bounds.AtLeast("--max-queries", f.cfg.MaxQueries, 1),
		bounds.AtLeast("--max-prefixes", f.cfg.MaxPrefixes, 1),
		bounds.AtLeast("--ring-size", f.cfg.RingBytes, 1))
}

func (f *measureFlags) checkKeys() error {
	for _, key := range f.by {
		if err := bounds.OneOf("--aggregate-by", key, "pair", "vlan", "interface", "protocol"); err != nil {
			return err
		}
	}
	return nil
}

// keys returns the keys of aggregates.
func (f *measureFlags) keys() report.Keys {
	return report.Keys{
		Pair: slices.Contains(f.by, "pair"), VLAN: slices.Contains(f.by, "vlan"),
		Interface: slices.Contains(f.by, "interface"), Protocol: slices.Contains(f.by, "protocol"),
	}
}

// config returns the configuration that the flags describe.
func (f *measureFlags) config() (rtt.MonitorConfig, error) {
	cfg := f.cfg
	if f.groups != "" {
		var err error
		if cfg.Groups, err = groups.Load(f.groups); err != nil {
			return cfg, fmt.Errorf("--aggregate-groups: %w", err)
		}
	}
	cfg.RateLimit = orOff(f.rateLimit, time.Millisecond)
	cfg.CleanupInterval = orOff(f.cleanup, time.Second)
	cfg.AggregateTimeout = orOff(f.timeout, time.Second)
	cfg.AggregateBy = f.keys()
	cfg.AggregateLoad = uint64(f.load * 1e6 / 8)
	cfg.BinWidth = time.Duration(f.binWidth * float64(time.Millisecond))
	if cfg.IPv4Prefix == 0 {
		cfg.IPv4Prefix = rtt.WholeFamily
	}
	if cfg.IPv6Prefix == 0 {
		cfg.IPv6Prefix = rtt.WholeFamily
	}
	return cfg, nil
}

// regroupOnHangup reads the file with the groups again at each SIGHUP, until the function that it returns is called. A
// file with mistakes changes nothing.
func (f *measureFlags) regroupOnHangup(m *rtt.Monitor) (stop func()) {
	if f.groups == "" {
		return func() {}
	}
	return takeHangups().call(func() {
		t, err := groups.Load(f.groups)
		if err == nil {
			err = m.Regroup(t)
		}
		if err != nil {
			slog.Error("the groups stay as they are", "err", err)
			return
		}
		slog.Info("read the groups again", "prefixes", len(t), "groups", len(t.Names()))
	})
}

// orOff returns n units. For 0 it returns a negative duration, which means off.
func orOff(n float64, unit time.Duration) time.Duration {
	if n == 0 {
		return -1
	}
	return time.Duration(n * float64(unit))
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
