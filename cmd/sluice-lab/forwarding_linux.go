package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/lab"
	"sluice/lab/bench/forwarding"
	"sluice/lab/bench/result"
)

// forwardingFlags are the flags of sluice-lab forwarding.
type forwardingFlags struct {
	cfg           forwarding.Config
	modes         []string
	rate          string
	epping, pping string
	out           string
}

func newForwarding(env *cli.Environment) *cobra.Command {
	f := new(forwardingFlags)
	cmd := &cobra.Command{
		Use:   "forwarding",
		Short: "Measure what sluice-rtt costs a router, and other monitors beside it",
		Long: `Measure how many packets a second one CPU forwards while a monitor watches, and how many RTTs the monitor
reports and misses; and at a rate that leaves the CPU idle, the CPU time of the monitor's process, and its memory. Each
load is run without a monitor, too. It needs root.

The kernel makes the packets and forwards them between two devices of a network namespace, on the last CPU. Neither
interrupts nor another CPU take part. The monitor has the other CPUs. With --one-cpu it has only the CPU that forwards,
so what its process takes of that CPU is a part of its cost. With --end-hosts the packets come from TCP connections of
two hosts on the CPU that forwards, so that shows whether hosts or monitor take more of it.

--epping and --pping add other monitors, with the same options; docs/rtt.md says how to build them. Results go to --out:
results.json for programs, tables.md and plots for people.`,
		Example: `  sudo sluice-lab forwarding
  sudo sluice-lab forwarding --epping bpf-examples/pping/pping --pping pping/pping
  sudo sluice-lab forwarding --flows 1000 --mode aggregated --rate 0 --repetitions 5
  sudo sluice-lab forwarding --one-cpu --epping bpf-examples/pping/pping --rate 0
  sudo sluice-lab forwarding --end-hosts --one-cpu --rate 0 --flows 1 --mode 'every RTT'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&f.cfg.Flows, "flows", nil, "`numbers` of flows (default 1,10,100,1000)")
	flags.StringSliceVar(&f.modes, "mode", nil, "what monitors report, `modes` among: every RTT, sampled, aggregated "+
		"(default all)")
	flags.StringVar(&f.rate, "rate", "200mbit",
		"forward at this `rate`, too, and not only as fast as the CPU can; 0: only that")
	flags.BoolVar(&f.cfg.OneCPU, "one-cpu", false, "the monitor shares the CPU that forwards")
	flags.BoolVar(&f.cfg.EndHosts, "end-hosts", false,
		"packets come from TCP connections of two hosts, which share the CPU that forwards (with --rate 0)")
	flags.StringVar(&f.epping, "epping", "", "also measure ePPing, the `program` pping of xdp-project/bpf-examples")
	flags.StringVar(&f.pping, "pping", "", "also measure PPing, the `program` pping of Pollere")
	flags.IntVar(&f.cfg.Repetitions, "repetitions", 0, "`number` of runs of each monitor under each load (default 3)")
	flags.DurationVar(&f.cfg.Duration, "duration", 0, "`duration` of a run (default 2s)")
	flags.StringVar(&f.out, "out", "forwarding-results", "`directory` for the results")
	return cmd
}

func (f *forwardingFlags) run(ctx context.Context, env *cli.Environment) error {
	if err := f.configure(); err != nil {
		return err
	}
	f.cfg.Progress = func(line string) { fmt.Fprintln(env.Stdout, line) }
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	found, err := forwarding.Measure(ctx, f.cfg)
	if found == nil || len(found.Scenarios) == 0 {
		return err
	}
	return errors.Join(err, present(env, found, map[string][]string{result.KindForwarding: {
		"rate", "bits", "packet", "forwarder", "rtts", "missed", "user", "anonymous", "resident",
	}}, f.out))
}

func (f *forwardingFlags) configure() error {
	if f.rate != "0" {
		rate, err := lab.ParseRate(f.rate)
		if err != nil {
			return cli.Usage("--rate: %v", err)
		}
		f.cfg.Rate = uint64(rate)
	}
	for _, m := range f.modes {
		f.cfg.Modes = append(f.cfg.Modes, forwarding.Mode(m))
	}
	monitor, err := cli.FindProgram("sluice-rtt")
	if err != nil {
		return err
	}
	f.cfg.Monitors = []forwarding.Monitor{forwarding.Sluice(monitor, cli.Version())}
	if f.epping != "" {
		f.cfg.Monitors = append(f.cfg.Monitors, forwarding.EPPing(f.epping))
	}
	if f.pping != "" {
		f.cfg.Monitors = append(f.cfg.Monitors, forwarding.PPing(f.pping))
	}
	return cli.AsUsage(f.cfg.Validate())
}
