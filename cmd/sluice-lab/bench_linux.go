package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/lab"
	"sluice/lab/bench"
	"sluice/lab/bench/hosts"
	"sluice/lab/bench/load"
	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
	"sluice/player/cmaf"
	"sluice/transport"
)

// benchFlags are the flags of sluice-lab bench.
type benchFlags struct {
	cfg             bench.RunConfig
	out             string
	commands, names []string
	peers           []string
	unprotected     bool

	hosts, relayAddress, sshConfig string
	remote                         hosts.Config
}

func newBench(env *cli.Environment) *cobra.Command {
	f := new(benchFlags)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the relay in a lab, and other relays beside it",
		Long: `Measure what a relay costs: the delay and jitter that it adds, the CPU, memory and system calls that
it takes, how many subscribers it serves, what happens at a bottleneck, how long others wait for its processor, what
further relays of a chain add, and how old video is when the others in a conference have it. It builds a lab for that,
as 'sluice-lab lab up' does, and needs root.

Sluice is measured with the fast path and without it. --relay-cmd adds any other relay that speaks MoQT draft 18 over
QUIC, with the same publisher and subscribers; it may be repeated. --peer adds relays that 'make bench-peers' installs.
In the command, {addr} stands for where to listen (also {host} and {port}), {cert} and {key} for PEM files, {dir} for an
empty directory. Three scenarios run only if --scenario names them: clients, whose publisher and player are programs,
our own ones and those that 'make bench-peers' installs; rtsp, whose publisher and players use RTSP; and profile, the
CPU time of Sluice's process by function.
--unprotected adds Sluice without packet protection, with a publisher and subscribers of the same build: the bound of
what hardware that protects packets could save.

With --hosts, publisher, relay and subscribers have machines of their own, on which ssh logs in without asking, on the
relay's as root or with sudo. The programs are copied there, and removed at the end. Bottleneck, bystander, chain,
conference, clients and RTSP need a lab.

Results go to --out: results.json for programs, tables.md and plots for people. If the load generator was the bottleneck
of a run, the tables have this reason instead of numbers.`,
		Example: `  sudo sluice-lab bench --quick
  sudo sluice-lab bench --scenario delay,cpu --subscribers 1,10 --repetitions 5
  sudo sluice-lab bench --peer moq-relay-ietf,moq-relay
  sudo sluice-lab bench --scenario rtsp --peer mediamtx --repetitions 1
  sudo sluice-lab bench --unprotected --scenario delay,cpu,capacity
  sluice-lab bench --hosts pub=a,relay=root@b,sub=c --scenario delay,cpu
  sudo sluice-lab bench --relay-name other --relay-cmd 'other --bind {addr} --tls-cert {cert} --tls-key {key}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.cfg.Brief, "quick", false,
		"take less than 3 minutes: shorter runs, one repetition, at most 10 subscribers by default")
	flags.StringVar(&f.out, "out", "bench-results", "`directory` for the results")
	flags.StringSliceVar(&f.cfg.Kinds, "scenario", nil,
		"measure only these `kinds`: "+strings.Join(result.Kinds(), ", ")+
			" (default all but profile, clients and rtsp)")
	flags.IntVar(&f.cfg.Repetitions, "repetitions", 0, "`number` of runs of each relay under each load (default 3)")
	flags.IntSliceVar(&f.cfg.Subscribers, "subscribers", nil, "`numbers` of subscribers (default 1,10,50,200)")
	flags.DurationVar(&f.cfg.Duration, "duration", 0, "measure each run for this `duration` (default 6s)")
	flags.Func("rate", "`rate` of the mock video, such as 5mbit (default 2mbit)", func(value string) (err error) {
		f.cfg.Rate, err = lab.ParseRate(value)
		return err
	})
	flags.StringArrayVar(&f.commands, "relay-cmd", nil, "`command` of another relay; spaces divide its words")
	flags.StringSliceVar(&f.peers, "peer", nil,
		"`names` of relays that 'make bench-peers' installs: "+strings.Join(system.PeerNames(), ", "))
	flags.BoolVar(&f.unprotected, "unprotected", false,
		"measure Sluice without packet protection, too: the build of 'make unprotected'")
	flags.StringArrayVar(&f.names, "relay-name", nil,
		"its `name`; the n-th names the n-th --relay-cmd (default: the name of the program)")
	flags.StringVar(&f.hosts, "hosts", "",
		"measure on machines of their own instead of in a lab, reached by ssh: `pub=HOST,relay=HOST,sub=HOST`")
	flags.StringVar(&f.relayAddress, "relay-address", "",
		"`address` of the relay's machine, or two: for publisher and subscribers (default: where ssh connects to)")
	flags.StringVar(&f.sshConfig, "ssh-config", "", "configuration `file` for ssh (default: yours)")
	flags.Uint64Var(&f.cfg.Seed, "seed", 1, "`seed` of the lab")
	return cmd
}

func (f *benchFlags) run(ctx context.Context, env *cli.Environment) (err error) {
	if err := f.configure(env); err != nil {
		return err
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	measure := func() (*result.Report, error) { return bench.Measure(ctx, f.cfg) }
	if f.hosts != "" {
		measure = func() (*result.Report, error) { return f.runHosts(ctx, env) }
	}
	found, err := measure()
	if found == nil || len(found.Scenarios) == 0 {
		return err // nothing was measured: do not overwrite the results of an earlier run
	}
	printReport(env.Stdout, found, shown)
	if failed := writeReport(f.out, found); failed != nil {
		return errors.Join(err, failed)
	}
	fmt.Fprintf(env.Stdout, "\nwritten to %s: results.json, tables.md, plots\n", f.out)
	return err
}

// configure completes the configuration and checks it.
func (f *benchFlags) configure(env *cli.Environment) (err error) {
	if f.cfg.Programs.Generator, err = os.Executable(); err != nil {
		return err
	}
	if f.cfg.Programs.Sluice, err = cli.FindProgram("sluice"); err != nil {
		return err
	}
	f.cfg.Systems = system.Sluice(cli.Version())
	if len(f.names) > len(f.commands) {
		return cli.Usage("there are more --relay-name than --relay-cmd")
	}
	if err := f.configureHosts(); err != nil {
		return err
	}
	if f.unprotected {
		build, err := findUnprotected()
		if err != nil {
			return err
		}
		f.cfg.Systems = append(f.cfg.Systems, system.Unprotected(cli.Version(), build)...)
	}
	for _, name := range f.peers {
		peer, err := system.Peer(name, peersDir(env))
		if err != nil {
			return cli.AsUsage(err)
		}
		f.cfg.Systems = append(f.cfg.Systems, peer)
	}
	if slices.Contains(f.cfg.Kinds, result.KindClients) {
		if err := f.configureClients(env); err != nil {
			return err
		}
	}
	for i, command := range f.commands {
		name, _, _ := strings.Cut(command, " ")
		if name = filepath.Base(name); i < len(f.names) {
			name = f.names[i]
		}
		f.cfg.Systems = append(f.cfg.Systems, system.Spec{Name: name, Command: command})
	}
	f.cfg.Commit, f.cfg.Command = origin(env)
	f.cfg.Progress = func(line string) { fmt.Fprintln(env.Stdout, line) }
	if err := f.cfg.Validate(); err != nil {
		return cli.AsUsage(err)
	}
	return nil
}

// configureClients finds the programs that publish and play, and takes the init segment of the sample clip for them.
func (f *benchFlags) configureClients(env *cli.Environment) error {
	stock, err := system.StockClients(peersDir(env))
	if err != nil {
		return cli.AsUsage(err)
	}
	path, err := findSample()
	if err != nil {
		return err
	}
	clip, err := os.Open(path)
	if err != nil {
		return err
	}
	defer clip.Close()
	init, err := cmaf.NewReader(clip).Init()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	isVideo := func(t cmaf.TrackInfo) bool { return t.Kind == cmaf.Video }
	f.cfg.Clients = []system.Clients{system.OwnClients, stock}
	f.cfg.Init = init.Only(init.Tracks[slices.IndexFunc(init.Tracks, isVideo)].ID)
	return nil
}

// peersDir returns the directory into which lab/bench/install-peers puts programs.
func peersDir(env *cli.Environment) string {
	if dir := env.Getenv("SLUICE_PEERS"); dir != "" {
		return filepath.Join(dir, "bin")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "" // then PATH is searched
	}
	return filepath.Join(cache, "sluice", "peers", "bin")
}

// shown lists the metrics that the table of each kind of scenario has.
var shown = map[string][]string{
	result.KindDelay: {"first.p50", "first.p99", "last.p50", "last.p99", "jitter.p99", "kernel"},
	result.KindCPU: {"cpu.frame.relay", "cpu.packet.relay", "cpu.frame", "cpu.packet", "cpu.relay",
		"cpu.ebpf", "cpu.system", "cpu.relay.wakeups"},
	result.KindMemory:   {"memory.resident", "memory.proportional", "memory.peak", "memory.maps", "memory.session"},
	result.KindSyscalls: {"syscalls.total", "syscalls.frame", "syscalls.packet"},
	result.KindProfile:  {"profile.cpu"},
	result.KindCapacity: {"capacity", "capacity.atleast"},
	result.KindCongestion: {"playable", "keys", "audio", "stalls", "stalled", "age.p50", "age.p90", "age.p99",
		"goodput", "fit", "switches", "neighbour.playable"},
	result.KindBystander: {"ping.p50", "ping.p99", "ping.idle.p50", "ping.idle.p99", "ping.lost"},
	result.KindChain: {"first.p50", "first.p99", "last.p50", "last.p99", "hop.p50", "hop.p99", "hop.last.p50",
		"hop.last.p99", "kernel"},
	result.KindConference: {"glass.p50", "glass.p90", "glass.p99", "lost", "cpu.relay", "kernel"},
	result.KindClients:    {"first.p50", "first.p99", "last.p50", "last.p99", "lost", "kernel"},
	result.KindRTSP: {"first.p50", "first.p99", "last.p50", "last.p99", "jitter.p99", "cpu.frame.relay", "cpu.relay",
		"rtp.lost", "kernel", "capacity", "capacity.atleast"},
}

// newBenchLoad returns the hidden command by which a bench starts load generators in the hosts of its lab.
func newBenchLoad(env *cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:    "bench-load JSON",
		Short:  "Be a load generator of sluice-lab bench",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var cfg load.GeneratorConfig
			if err := json.Unmarshal([]byte(args[0]), &cfg); err != nil {
				return cli.AsUsage(err)
			}
			transport.OfferStockSuites()
			return load.Run(cmd.Context(), cfg, env.Stdin, env.Stdout)
		},
	}
}
