package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/rtt"
)

// rttFlags are the flags of sluice rtt as the user writes them.
type rttFlags struct {
	cfg       rtt.Config
	rateLimit float64 // ms
	cleanup   float64 // s
	aggregate float64 // s
	timeout   float64 // s
	binWidth  float64 // ms
	format    string
	file      string
	pcap      string
}

func newRTT(env *environment) *cobra.Command {
	f := new(rttFlags)
	cmd := &cobra.Command{
		Use:   "rtt -i INTERFACE",
		Short: "Measure the round-trip times of passing TCP, QUIC, DNS and ping traffic",
		Long: `Measure round-trip times of the traffic that passes an interface, without sending a packet. The measurement runs in the
kernel, as eBPF programs; no packet is copied, changed or dropped.

What is measured: TCP by timestamps, else by sequence numbers; ICMP echo; DNS; QUIC by its handshake and spin bit.
docs/rtt.md says what each number means and when it is wrong. The options and output of ePPing are understood.`,
		Example: `  sluice rtt -i eth0                         # RTTs of TCP flows, as they are measured
  sluice rtt -i eth0 --all -F jsonl -w rtt.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *rttFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&f.cfg.Interfaces, "interface", "i", nil, "watch these `interfaces`")
	f.registerProtocols(flags)
	flags.Float64VarP(&f.rateLimit, "rate-limit", "r", 100, "time one packet per flow direction in this many `ms`; 0: every one that can be timed")
	flags.Float64VarP(&f.cfg.RTTRate, "rtt-rate", "R", 0, "the same as a `multiple` of the flow's RTT, once it is known; 0: --rate-limit rules")
	flags.StringVarP((*string)(&f.cfg.RTTType), "rtt-type", "t", string(rtt.RTTMin), "RTT that --rtt-rate multiplies: min or smoothed")
	flags.BoolVarP(&f.cfg.IncludeSYN, "include-syn", "s", false, "time SYNs too; a SYN flood then fills the flow table")
	flags.BoolVarP(&f.cfg.IncludeLocal, "include-local", "l", false, "time packets to this host too: its own delay")
	flags.Float64VarP(&f.cleanup, "cleanup-interval", "c", 1, "remove what has timed out every this many `seconds`; 0: never")
	flags.StringVarP((*string)(&f.cfg.Hook), "ingress-hook", "I", string(rtt.HookTC), "see arriving packets at this `hook`: tc, tcx, clsact or xdp")
	flags.StringVarP((*string)(&f.cfg.XDPMode), "xdp-mode", "x", string(rtt.XDPNative), "attach XDP in this `mode`: unspecified, native or generic")
	flags.BoolVar(&f.cfg.MergeInterfaces, "merge-interfaces", false, "flows may come and go by different interfaces or VLANs")
	f.registerAggregation(flags)
	flags.IntVar(&f.cfg.MaxFlows, "max-flows", rtt.DefaultMaxFlows, "follow at most this many flows at a time")
	flags.IntVar(&f.cfg.MaxStamps, "max-stamps", rtt.DefaultMaxStamps, "wait for at most this many replies at a time")
	flags.IntVar(&f.cfg.MaxQueries, "max-queries", rtt.DefaultMaxQueries, "wait for at most this many DNS responses at a time")
	flags.IntVar(&f.cfg.RingBytes, "ring-size", rtt.DefaultRingBytes, "buffer this many `bytes` of events on their way out of the kernel")
	flags.StringVar(&f.pcap, "pcap", "", "measure the packets of this pcap or pcapng `file` instead, at the times in it")
	flags.StringVarP(&f.format, "format", "F", string(rtt.FormatStandard), "write standard, json, jsonl or ppviz")
	flags.StringVarP(&f.file, "write", "w", "", "append to this `file`, which SIGHUP reopens; default: standard output")
}

func (f *rttFlags) registerProtocols(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.cfg.TCP, "tcp", "T", false, "measure TCP (the default if no protocol is chosen)")
	flags.BoolVarP(&f.cfg.ICMP, "icmp", "C", false, "measure ICMP and ICMPv6 echo")
	flags.BoolVarP(&f.cfg.DNS, "dns", "D", false, "measure DNS over UDP and TCP, port 53")
	flags.BoolVarP(&f.cfg.QUIC, "quic", "Q", false, "measure QUIC by its handshake and spin bit")
	flags.BoolFunc("all", "measure every protocol", func(string) error {
		f.cfg.TCP, f.cfg.ICMP, f.cfg.DNS, f.cfg.QUIC = true, true, true, true
		return nil
	})
}

func (f *rttFlags) registerAggregation(flags *pflag.FlagSet) {
	flags.Float64VarP(&f.aggregate, "aggregate", "a", 0, "report histograms of network prefixes every this many `seconds`, instead of RTTs and flows")
	flags.IntVarP(&f.cfg.IPv4Prefix, "aggregate-subnets-v4", "4", rtt.DefaultIPv4Prefix, "aggregate IPv4 by prefixes of this many `bits`")
	flags.IntVarP(&f.cfg.IPv6Prefix, "aggregate-subnets-v6", "6", rtt.DefaultIPv6Prefix, "aggregate IPv6 by prefixes of this many `bits`")
	flags.BoolVar(&f.cfg.AggregateReverse, "aggregate-reverse", false, "aggregate by the destination of replies, not by their source")
	flags.Float64Var(&f.timeout, "aggregate-timeout", rtt.DefaultAggregateTimeout.Seconds(), "forget prefixes without traffic for this many `seconds`; 0: never")
	flags.Float64Var(&f.binWidth, "bin-width", float64(rtt.DefaultBinWidth)/float64(time.Millisecond), "width of the histograms' bins in `ms`")
	flags.IntVar(&f.cfg.MaxPrefixes, "max-prefixes", rtt.DefaultMaxPrefixes, "aggregate at most this many prefixes at a time, the others together")
}

// config translates those flags whose 0 means off.
func (f *rttFlags) config() rtt.Config {
	cfg := f.cfg
	cfg.Aggregate = time.Duration(f.aggregate * float64(time.Second))
	cfg.AggregateTimeout = orOff(f.timeout, time.Second)
	cfg.BinWidth = time.Duration(f.binWidth * float64(time.Millisecond))
	if cfg.IPv4Prefix == 0 {
		cfg.IPv4Prefix = rtt.WholeFamily
	}
	if cfg.IPv6Prefix == 0 {
		cfg.IPv6Prefix = rtt.WholeFamily
	}
	cfg.RateLimit = orOff(f.rateLimit, time.Millisecond)
	cfg.CleanupInterval = orOff(f.cleanup, time.Second)
	return cfg
}

func orOff(n float64, unit time.Duration) time.Duration {
	if n == 0 {
		return -1
	}
	return time.Duration(n * float64(unit))
}

func (f *rttFlags) run(ctx context.Context, env *environment) (err error) {
	if f.aggregate > 0 && f.format == string(rtt.FormatPPViz) {
		return usageError{errors.New("--format ppviz has nothing for --aggregate: choose standard, json or jsonl")}
	}
	out, err := rtt.NewWriter(rtt.Format(f.format), f.output(env))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	cfg := f.config()
	cfg.Sink = out
	if f.pcap != "" {
		return f.replay(ctx, cfg)
	}
	m, err := rtt.New(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	defer onHangup(out.Reopen)()
	return m.Run(ctx)
}

func (f *rttFlags) replay(ctx context.Context, cfg rtt.Config) error {
	file, err := os.Open(f.pcap)
	if err != nil {
		return err
	}
	defer file.Close()
	replayed, err := rtt.Replay(ctx, cfg, file)
	slog.Info("replayed", "packets", replayed.Packets, "skipped", replayed.Skipped)
	return err
}

// onHangup calls fn at each SIGHUP, until the function that it returns is called.
func onHangup(fn func()) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			fn()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// output returns what opens the output.
func (f *rttFlags) output(env *environment) func() (io.WriteCloser, error) {
	if f.file == "" {
		return func() (io.WriteCloser, error) { return nopCloser{env.stdout}, nil }
	}
	return func() (io.WriteCloser, error) {
		return os.OpenFile(f.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
