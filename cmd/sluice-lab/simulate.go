package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/lab/sim/trial"
)

// exact is set by the linker in a build with the overlay of lab/sim/overlay: see make simulate.
var exact string

// errSimulation says that schedules have failed. The failures were printed.
var errSimulation = errors.New("the simulation has failed")

const (
	maxSimulated = 1_000_000
	shrinkTries  = 150
)

// simulateFlags are the flags of sluice-lab simulate.
type simulateFlags struct {
	seed, order, seeds  uint64
	schedule, smallest  string
	pcap, keys, qlog    string
	log, keepQlog, once bool
	live                string // the directory of a child
}

func newSimulate(env *cli.Environment) *cobra.Command {
	f := new(simulateFlags)
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Live through mishaps that follow from a seed, in virtual time, and show what was sent",
		Long: `Have whole relays, a publisher and viewers live through a schedule of mishaps in virtual time, on a
network in memory. Each viewer has to get each object. docs/simulation.md says more.

A schedule that fails is made smaller for as long as it fails, and what is left is written to a file for --schedule.

A program that 'make simulate' has built (bin/simulate/sluice-lab) runs each schedule twice, and both runs have to send
the same packets at the same times; --once leaves the second run out. Of this program, runs of the same seed may differ
in the order of goroutines.`,
		Example: `  sluice-lab simulate --seed 90 --pcap 90.pcap --keys 90.keys
  tshark -r 90.pcap -o tls.keylog_file:90.keys -d udp.port==4443,quic
  sluice-lab simulate --seed 90 --qlog qlogs        # look at them in qvis
  sluice-lab simulate --schedule smallest.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 1, "the first `number`")
	flags.Uint64Var(&f.seeds, "seeds", 1, "live through the schedules of this `number` of seeds")
	flags.Uint64Var(&f.order, "order", 0, "another `number` orders goroutines in another way (default: the seed)")
	flags.StringVar(&f.schedule, "schedule", "", "live through the schedule of a `file` instead of a seed's")
	flags.StringVar(&f.smallest, "smallest", "smallest.json", "write the smallest schedule that fails to this `file`")
	flags.StringVar(&f.pcap, "pcap", "", "write what was sent to this `file`")
	flags.StringVar(&f.keys, "keys", "", "write the secrets of TLS to this `file`, for Wireshark")
	flags.StringVar(&f.qlog, "qlog", "", "write a qlog of each end of each connection to this `directory`")
	flags.BoolVar(&f.once, "once", false, "live through each schedule once, also in an exact build")
	flags.BoolVar(&f.log, "log", false, "show what relays log")
	flags.StringVar(&f.live, "live", "", "")
	cobra.CheckErr(flags.MarkHidden("live"))
	return cmd
}

func (f *simulateFlags) run(ctx context.Context, env *cli.Environment) error {
	if f.live != "" {
		return simulateHere(f.live)
	}
	if err := bounds.Check("--seeds", f.seeds, 1, maxSimulated); err != nil {
		return cli.AsUsage(err)
	}
	if err := bounds.Check("--order", f.order, 0, maxSimulated); err != nil {
		return cli.AsUsage(err)
	}
	if f.wantsFiles() && f.seeds > 1 {
		return cli.Usage("--seeds: %d: must be 1 with --pcap, --keys or --qlog", f.seeds)
	}
	schedules, err := f.schedules()
	if err != nil {
		return err
	}
	return f.liveAll(ctx, env, schedules)
}

func (f *simulateFlags) wantsFiles() bool { return f.pcap != "" || f.keys != "" || f.qlog != "" }

// schedules returns the schedule of the file, or the schedules of the seeds.
func (f *simulateFlags) schedules() (all []*trial.Schedule, err error) {
	if f.schedule != "" {
		s := new(trial.Schedule)
		if err := readJSON(f.schedule, s); err != nil {
			return nil, err
		}
		all = append(all, s)
	} else {
		for i := range f.seeds {
			all = append(all, trial.NewSchedule(f.seed+i))
		}
	}
	for _, s := range all {
		if err := s.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.schedule, err)
		}
		if f.order != 0 {
			s.Order = f.order
		}
	}
	return all, nil
}

// liveAll lives through schedules, as many at a time as there are processors. It makes the first one that fails
// smaller.
func (f *simulateFlags) liveAll(ctx context.Context, env *cli.Environment, schedules []*trial.Schedule) error {
	var (
		mu     sync.Mutex
		failed *trial.Schedule
		bad    int
		next   = make(chan *trial.Schedule)
		work   sync.WaitGroup
	)
	for range min(len(schedules), runtime.NumCPU()) {
		work.Go(func() {
			for s := range next {
				said, err := f.liveTwice(ctx, s)
				mu.Lock()
				if err != nil && ctx.Err() == nil {
					bad++
					fmt.Fprintf(env.Stdout, "seed %d: %v\n%s\n", s.Seed, err, said)
					if !errors.Is(err, errDiffer) && (failed == nil || s.Seed < failed.Seed) {
						failed = s
					}
				} else if len(schedules) == 1 {
					fmt.Fprint(env.Stdout, said)
				}
				mu.Unlock()
			}
		})
	}
	for _, s := range schedules {
		next <- s
	}
	close(next)
	work.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "%d schedules, %d failed\n", len(schedules), bad)
	if failed != nil {
		if err := f.shrink(ctx, env, failed); err != nil {
			return err
		}
	}
	if bad > 0 {
		return errSimulation
	}
	return nil
}

// shrink makes a schedule smaller. It prints the smallest one that fails, and writes it to a file.
func (f *simulateFlags) shrink(ctx context.Context, env *cli.Environment, s *trial.Schedule) error {
	without := *f
	without.pcap, without.keys, without.qlog, without.log = "", "", "", false
	again := fmt.Sprintf("%s simulate --seed %d", programName, s.Seed)
	switch {
	case f.schedule != "":
		again = fmt.Sprintf("%s simulate --schedule %s", programName, f.schedule)
	case exact != "":
		again = fmt.Sprintf("make simulate SEED=%d SEEDS=1", s.Seed)
		if s.Order != s.Seed {
			again += fmt.Sprintf(" SIMULATE='--order %d'", s.Order)
		}
	}
	fmt.Fprintf(env.Stdout, "again: %s\n", again)
	least := trial.Shrink(s, shrinkTries, func(c *trial.Schedule) bool {
		_, _, err := without.liveOnce(ctx, c)
		return err != nil && ctx.Err() == nil
	})
	said, _, _ := without.liveOnce(ctx, least)
	b, err := json.MarshalIndent(least, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "the smallest schedule found that fails, for simulate --schedule %s:\n%s\n%s\n",
		f.smallest, b, said)
	return os.WriteFile(f.smallest, append(b, '\n'), 0o644)
}

// liveTwice lives through a schedule. In an exact build it does so again, and compares.
func (f *simulateFlags) liveTwice(ctx context.Context, s *trial.Schedule) (said string, err error) {
	said, first, err := f.liveOnce(ctx, s)
	if err != nil || exact == "" || f.once {
		return said, err
	}
	again := simulateFlags{keepQlog: f.qlog != ""} // qlogs change the order
	_, second, err := again.liveOnce(ctx, s)
	if err == nil && first != second {
		err = fmt.Errorf("%w: %+v, %+v", errDiffer, first, second)
	}
	return said, err
}

// liveOnce lives through a schedule in a process of its own, which begins like each other one.
func (f *simulateFlags) liveOnce(ctx context.Context, s *trial.Schedule) (said string, r simulateResult, err error) {
	dir, err := os.MkdirTemp("", "sluice-simulate-")
	if err != nil {
		return "", r, err
	}
	defer os.RemoveAll(dir)
	o := simulateOrder{Schedule: s, Log: f.log, KeepQlog: f.keepQlog || f.qlog != ""}
	for to, name := range map[*string]string{&o.Pcap: f.pcap, &o.Keys: f.keys, &o.Qlog: f.qlog} {
		if name == "" {
			continue
		}
		if *to, err = filepath.Abs(name); err != nil {
			return "", r, err
		}
	}
	b, err := json.Marshal(o)
	if err != nil {
		return "", r, err
	}
	if err := os.WriteFile(filepath.Join(dir, orderFile), b, 0o600); err != nil {
		return "", r, err
	}
	program, err := os.Executable()
	if err != nil {
		return "", r, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, mostTime, errEndless)
	defer cancel()
	c := exec.CommandContext(ctx, program, "simulate", "--live", ".")
	c.Args[0], c.Dir = programName, dir // the tests of this program look at its name
	// The order of goroutines depends on these. Nothing else is in the environment: even its size matters to the heap.
	c.Env = []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1,memprofilerate=0"}
	out, err := c.CombinedOutput()
	if err != nil {
		return string(out), r, cmp.Or(context.Cause(ctx), err)
	}
	if err := readJSON(filepath.Join(dir, resultFile), &r); err != nil {
		return string(out), r, err
	}
	return fmt.Sprintf("seed %d: %d packets, hash %s\n", s.Seed, r.Packets, r.Hash), r, nil
}

func readJSON(name string, into any) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return nil
}
