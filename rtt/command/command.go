// Package command has the command line of the latency monitor, sluice-rtt.
//
// Each file has a group of flags, and turns them into the configuration of a package.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/internal/service"
	"sluice/rtt"
	"sluice/rtt/history"
	"sluice/rtt/ipfix"
	"sluice/rtt/metrics"
	"sluice/rtt/networks"
	"sluice/rtt/output"
	"sluice/rtt/report"
)

// Main runs the command line of this process and returns the exit code. The command sluice rtt executes the program
// under its own name.
func Main() int {
	name := "sluice-rtt"
	if filepath.Base(os.Args[0]) == "sluice rtt" {
		name = "sluice rtt"
	}
	return cli.Main(cli.Program{Name: name, Command: newRTT})
}

// rttFlags are the flags of sluice-rtt as the user writes them.
type rttFlags struct {
	measureFlags
	aggregate    float64 // s
	format       string
	file         string
	pcap         string
	metrics      string
	metricsHosts []string
	dryRun       bool
	history      string
	historySize  uint64
	historyAge   string
	alerts       alertFlags
	otlpURL      string
	ipfix        string

	ipfixEnterprise uint32
}

func newRTT(env *cli.Environment) *cobra.Command {
	f := new(rttFlags)
	cmd := &cobra.Command{
		Use:   "sluice-rtt -i INTERFACE",
		Short: "Measure the round-trip times of passing TCP, QUIC, DNS, NTP, STUN and ping traffic",
		Long: `Measure round-trip times of the traffic that passes an interface, without sending a packet. The
measurement runs in the kernel, as eBPF programs; no packet is copied, changed or dropped.

What is measured: TCP by timestamps, else by sequence numbers; ICMP echo; DNS; NTP; STUN; QUIC by its handshake and spin
bit. docs/rtt.md says what each number means and when it is wrong. The options and output of ePPing are understood.`,
		Example: `  sluice-rtt -i eth0                             # RTTs of TCP flows, as they are measured
  sluice-rtt -i eth0 --all -F jsonl -w rtt.jsonl # of all protocols, one JSON object a line
  sluice-rtt -i eth0 -a 10 --metrics :9100       # histograms of networks, every 10 s and for Prometheus
  sluice-rtt --pcap trace.pcap -r 0              # all RTTs in a capture`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	f.register(cmd.Flags())
	cmd.AddCommand(newRTTTop(env))
	return cmd
}

func (f *rttFlags) register(flags *pflag.FlagSet) {
	f.measureFlags.register(flags)
	flags.Float64VarP(&f.aggregate, "aggregate", "a", 0,
		"report histograms of network prefixes every this many `seconds`, instead of RTTs and flows")
	flags.StringVarP(&f.format, "format", "F", string(output.Standard),
		"write in this `format`: "+strings.Join(output.Formats(), ", "))
	flags.StringVarP(&f.file, "write", "w", "", "append to this `file`, which SIGHUP reopens; default: standard output")
	flags.StringVar(&f.pcap, "pcap", "",
		"measure the packets of this pcap, pcapng or ERF `file` instead, at the times in it")
	flags.BoolVar(&f.dryRun, "dry-run", false,
		"load the programs, write how much memory their tables take, and end without measuring")
	flags.StringVar(&f.history, "history", "", "keep aggregates in this `directory`, as Parquet files")
	flags.Uint64Var(&f.historySize, "history-size", 1<<30,
		"remove the oldest files of --history when all take more than this many `bytes`")
	flags.StringVar(&f.historyAge, "history-age", "0",
		"remove files that --history has kept for this `time`, such as 90d; 0: only --history-size removes")
	f.alerts.register(flags)
	flags.StringVar(&f.otlpURL, "otlp-url", "",
		"send aggregates as OpenTelemetry metrics to this `URL`, with headers of OTEL_EXPORTER_OTLP_HEADERS")
	flags.StringVar(&f.ipfix, "ipfix", "",
		"send aggregates as IPFIX records to the collector at this UDP `address`")
	flags.Uint32Var(&f.ipfixEnterprise, "ipfix-enterprise", ipfix.Enterprise,
		"private enterprise `number` of the IPFIX elements that IANA has not; the default is for examples")
	flags.StringVar(&f.metrics, "metrics", "",
		"serve metrics for Prometheus at this `address`, and at its /rtt how far networks are")
	flags.StringSliceVar(&f.metricsHosts, "metrics-host", nil,
		"host `names` by which clients may call the --metrics address, besides addresses and localhost")
}

func (f *rttFlags) check() error {
	if err := f.measureFlags.check(); err != nil {
		return err
	}
	if err := bounds.AtLeast("--aggregate", f.aggregate, 0); err != nil {
		return err
	}
	if err := output.Format(f.format).Check(); err != nil {
		return err
	}
	if f.aggregate > 0 {
		if err := output.Format(f.format).CheckAggregates(); err != nil {
			return err
		}
	}
	for _, of := range []struct {
		given bool
		what  string
		every string
	}{
		{len(f.by) > 0 || f.cfg.AggregateParts || f.load > 0,
			"--aggregate-by, --aggregate-parts and --aggregate-load are for --aggregate", "10"},
		{f.groups != "", "--aggregate-groups is for --aggregate", "10"},
		{f.history != "", "--history keeps what --aggregate reports", "60"},
		{f.otlpURL != "", "--otlp-url sends what --aggregate reports", "60"},
		{f.ipfix != "", "--ipfix sends what --aggregate reports", "60"},
	} {
		if of.given && f.aggregate == 0 {
			return fmt.Errorf("%s: say how often to report, such as -a %s", of.what, of.every)
		}
	}
	if _, err := f.historyLimits(); err != nil {
		return err
	}
	for _, a := range []struct{ flag, value, such string }{
		{"--ipfix", f.ipfix, "collector.example:4739"}, {"--metrics", f.metrics, ":9100"},
	} {
		if a.value == "" {
			continue
		}
		if err := bounds.Address(a.flag, a.value, "an address such as "+a.such); err != nil {
			return err
		}
	}
	if f.otlpURL != "" && f.binWidth != 0 {
		return errors.New("--otlp-url sends histograms with logarithmic bins: leave out --bin-width")
	}
	if err := f.alerts.check(f.aggregate); err != nil {
		return err
	}
	if f.pcap != "" && f.dryRun {
		return errors.New("--dry-run is for interfaces, not for --pcap")
	}
	if f.pcap != "" && slices.Contains(f.by, "interface") {
		return errors.New("--aggregate-by interface: must be without --pcap, which has one observer")
	}
	if f.pcap != "" && f.metrics != "" {
		return errors.New("--metrics is for interfaces, not for --pcap")
	}
	if f.pcap == "" && len(f.cfg.Interfaces) == 0 {
		return errors.New("nothing to measure: name an interface with -i, or a capture with --pcap")
	}
	return nil
}

func (f *rttFlags) run(ctx context.Context, env *cli.Environment) (err error) {
	if err := f.check(); err != nil {
		return cli.AsUsage(err)
	}
	cfg, err := f.config()
	if err != nil {
		return err
	}
	cfg.Aggregate = seconds(f.aggregate)
	if err := cfg.Check(); err != nil {
		return cli.AsUsage(err)
	}
	if f.dryRun {
		return writeMemory(env.Stdout, cfg)
	}
	out, err := f.open(ctx, env)
	defer func() { err = errors.Join(err, out.close()) }()
	if err != nil {
		return err
	}
	cfg.Sink = out
	if f.pcap != "" {
		return f.replay(ctx, cfg)
	}
	return f.watch(ctx, cfg, out)
}

// smallTable is the size up to which a table has no line of its own, in bytes.
const smallTable = 100_000

// writeMemory writes the memory of the tables of a configuration.
func writeMemory(out io.Writer, cfg rtt.MonitorConfig) error {
	tables, err := rtt.Memory(cfg)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TABLE\tENTRIES\tAT THE START\tAT MOST\tOF IT FOR EACH CPU")
	var sum, others report.TableMemory
	for _, t := range tables {
		sum.Now, sum.Max, sum.EachCPU = sum.Now+t.Now, sum.Max+t.Max, sum.EachCPU+t.EachCPU
		if t.Max <= smallTable {
			others.Now, others.Max, others.EachCPU = others.Now+t.Now, others.Max+t.Max, others.EachCPU+t.EachCPU
			continue
		}
		writeTable(w, t.Name, strconv.Itoa(int(t.Entries)), t)
	}
	writeTable(w, "others", "", others)
	writeTable(w, "sum", "", sum)
	return w.Flush()
}

func writeTable(w io.Writer, name, entries string, t report.TableMemory) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, entries, cli.BytesText(t.Now), cli.BytesText(t.Max),
		cli.BytesText(t.EachCPU))
}

// isPlain reports whether measurements are only written. That has a goroutine of its own, with so little to do that it
// can have the processor when measuring pauses. Metrics, histories, alerts and services have more to do.
func (f *rttFlags) isPlain() bool {
	return f.metrics == "" && f.history == "" && f.otlpURL == "" && f.ipfix == "" && f.alerts.factor == 0
}

// watch measures interfaces.
func (f *rttFlags) watch(ctx context.Context, cfg rtt.MonitorConfig, out *outlets) (err error) {
	service.CollectEarly()
	service.SampleNothing()
	if f.isPlain() {
		service.OneProcessor()
	}
	collector := metrics.New(cfg.AggregateBy)
	distances := metrics.Networks{Table: networks.New(f.cfg.IPv4Prefix, f.cfg.IPv6Prefix)}
	if f.metrics != "" {
		cfg.Sink = report.Tee{out, collector, distances}
		cfg.CountTraffic = true
	}
	m, err := rtt.New(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	defer f.regroupOnHangup(m)()
	if f.metrics != "" {
		collector.Follow(m.Counters)
		cfg := service.AdminConfig{Flag: "--metrics", Addr: f.metrics, Hosts: f.metricsHosts}
		admin, err := service.ListenAdmin(cfg, append(out.metrics, collector)...)
		if err != nil {
			return err
		}
		defer admin.Close()
		admin.Mux.Handle("GET "+networks.Path, f.distances(distances.Table))
		admin.SetReady(true)
	}
	if err := dropPrivileges(m.HasFilters()); err != nil {
		slog.Warn("privileges are kept that measuring does not need", "err", err)
	}
	service.NotifySystemd(daemon.SdNotifyReady)
	defer service.NotifySystemd(daemon.SdNotifyStopping)
	defer service.KeepSmall()()
	return m.Run(ctx)
}

// replay measures a capture.
func (f *rttFlags) replay(ctx context.Context, cfg rtt.MonitorConfig) error {
	file, err := os.Open(f.pcap)
	if err != nil {
		return err
	}
	defer file.Close()
	replayed, err := rtt.Replay(ctx, cfg, file)
	if err == nil && replayed.Skipped > 0 {
		slog.Warn("packets of the capture were skipped: their link type is unknown or their IP header is cut",
			"skipped", replayed.Skipped, "measured", replayed.Packets)
	}
	return err
}

// output returns a function that opens the output.
func (f *rttFlags) output(env *cli.Environment) func() (io.WriteCloser, error) {
	if f.file == "" {
		return func() (io.WriteCloser, error) { return cli.KeepOpen(env.Stdout), nil }
	}
	return func() (io.WriteCloser, error) {
		return os.OpenFile(f.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
}

// distances returns the handler that tells how far networks are. Aggregates may not tell that: then it says so, because
// an empty answer would mean that nothing was measured yet.
func (f *rttFlags) distances(t *networks.Table) http.Handler {
	switch {
	case f.aggregate > 0 && f.groups != "":
		return refused("--aggregate-groups: groups are no networks: leave it out to learn how far networks are")
	case f.aggregate > 0 && f.cfg.AggregateReverse:
		return refused("--aggregate-reverse: a prefix has the RTTs of those that it talks to: " +
			"leave it out to learn how far networks are")
	}
	return t
}

// historyLimits reads the flags about --history.
func (f *rttFlags) historyLimits() (l history.Limits, err error) {
	l.Size = int64(min(f.historySize, math.MaxInt64))
	l.Age, err = parseKeep("--history-age", f.historyAge)
	return l, err
}

// open opens the outlets that the flags name, apart from --metrics. They have to be closed, also after an error.
func (f *rttFlags) open(ctx context.Context, env *cli.Environment) (*outlets, error) {
	o := new(outlets)
	if f.pcap != "" {
		o.wait = ctx
	}
	for _, open := range []func() error{
		func() error { return o.openOutput(f, env) },
		func() error { return o.openHistory(f) },
		func() error { return o.openAlerts(f) },
		func() error { return o.openOTLP(f, env) },
		func() error { return o.openIPFIX(f) },
	} {
		if err := open(); err != nil {
			return o, err
		}
	}
	return o, nil
}

// hangups are the SIGHUPs that the process gets.
type hangups chan os.Signal

// takeHangups keeps SIGHUP from ending the process.
func takeHangups() hangups {
	h := make(hangups, 1)
	signal.Notify(h, syscall.SIGHUP)
	return h
}

// call calls fn at each SIGHUP, until the function that it returns is called.
func (h hangups) call(fn func()) (stop func()) {
	go func() {
		for range h {
			fn()
		}
	}()
	return func() {
		signal.Stop(h)
		close(h)
	}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// refused answers each request with an error.
func refused(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, text, http.StatusNotImplemented)
	})
}

// parseKeep reads how long something is kept, also in days. 0, or nothing, is no limit.
func parseKeep(flag, text string) (time.Duration, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		d = time.Duration(n * float64(24*time.Hour))
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s: %q: must be a time such as 90m, 12h or 7d", flag, text)
	}
	return d, nil
}
