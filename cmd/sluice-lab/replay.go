package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/fastpath"
	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/lab/bench/pathprofile"
	"sluice/lab/bench/replay"
	"sluice/lab/bench/result"
	"sluice/media"
)

// replayFlags are the flags of sluice-lab replay.
type replayFlags struct {
	profiles, policies, controllers []string
	ladder                          bool
	seeds                           int
	length                          time.Duration
	out                             string
}

// replayShown lists the metrics that the table has.
var replayShown = map[string][]string{
	result.KindCongestion: {
		"playable", "keys", "audio", "stalls", "stalled", "age.p50", "age.p90", "goodput", "packets", "fit", "switches",
	},
}

func newReplay(env *cli.Environment) *cobra.Command {
	f := new(replayFlags)
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Try drop policies and congestion controllers on simulated paths, without a network",
		Long: `Publish mock video with four layers (2 Mbit/s), and audio, to one subscriber, over each of the built-in
paths, whose rate, delay and loss change (docs/policies.md). The media sender of the relay sends it, with each policy
and each controller in turn. A table says what a viewer would have seen. Time is simulated: a minute takes a moment,
and the result is the same on every machine.

With --ladder, the video has three renditions (2, 1 and 0.4 Mbit/s), among which the relay chooses. The table then also
says for how much of the time pictures moved at the best rendition that fits the path.

Three policies are oracles, to compare others with: they know the path from the begin to the end, and send only what
arrives in time, within 1 s or 400 ms. One of them sends important objects first, as MoQT has it, the others in the
order of publication. They do not choose among renditions.

The controllers copa (Copa) and gcc (like Google Congestion Control) are for comparison; no relay has them.`,
		Example: `  sluice-lab replay
  sluice-lab replay --profile constant,lte --policy none,priority --out replayed
  sluice-lab replay --ladder --policy bytes --length 1m
  sluice-lab replay --profile lte,sawtooth --policy bytes --seeds 100`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.profiles, "profile", nil,
		"built-in `paths` (default all): "+strings.Join(pathprofile.Names(), ", "))
	flags.StringSliceVar(&f.policies, "policy", nil,
		"drop `policies` (default all): "+strings.Join(policyNames(), ", ")+", or a FILE.o for sluice relay --policy")
	flags.StringSliceVar(&f.controllers, "congestion", nil,
		"congestion `controllers` (default all): "+strings.Join(controllerNames(), ", "))
	flags.BoolVar(&f.ladder, "ladder", false, "the video has three renditions, among which the relay chooses")
	flags.IntVar(&f.seeds, "seeds", 3,
		"`number` of replays of each, with other random losses, fades and times of changes; the table has medians")
	flags.DurationVar(&f.length, "length", 30*time.Second, "`duration` of the mock media")
	flags.StringVar(&f.out, "out", "", "also write results.json, tables.md and plots into a `directory`")
	return cmd
}

func replayPolicies() []replay.Policy { return slices.Concat(replay.Policies(), replay.Oracles()) }

func policyNames() (names []string) {
	for _, p := range replayPolicies() {
		names = append(names, p.Name)
	}
	return names
}

func controllerNames() (names []string) {
	for _, c := range replay.Controllers() {
		names = append(names, c.Name)
	}
	return names
}

// maxSeeds and maxReplay bound how long a replay takes.
const (
	maxSeeds  = 100
	maxReplay = time.Hour
)

func (f *replayFlags) run(ctx context.Context, env *cli.Environment) error {
	err := errors.Join(bounds.Check("--seeds", f.seeds, 1, maxSeeds),
		bounds.Check("--length", f.length, time.Second, maxReplay))
	if err != nil {
		return cli.AsUsage(err)
	}
	subjects, err := f.subjects()
	if err != nil {
		return err
	}
	cases, err := f.cases()
	if err != nil {
		return err
	}
	found, err := replay.Compare(ctx, cases, subjects)
	if err != nil {
		return err
	}
	return present(env, found, replayShown, f.out)
}

// subjects returns each policy with each controller, and then the oracles, which have none.
func (f *replayFlags) subjects() (subjects []replay.Subject, err error) {
	controllers, policies := orAll(f.controllers, controllerNames()), orAll(f.policies, policyNames())
	var oracles []replay.Subject
	for n, c := range controllers {
		i := slices.Index(controllerNames(), c)
		if i < 0 {
			return nil, cli.AsUsage(bounds.OneOf("--congestion", c, controllerNames()...))
		}
		for _, p := range policies {
			policy, err := policyOf(p)
			if err != nil {
				return nil, err
			}
			if policy.Oracle != 0 {
				if n == 0 && !f.ladder { // they do not choose among renditions
					oracles = append(oracles, replay.Subject{Policy: policy})
				}
				continue
			}
			subjects = append(subjects, replay.Subject{Policy: policy, Controller: replay.Controllers()[i]})
		}
	}
	return append(subjects, oracles...), nil
}

// policyOf returns a policy by its name, or a file's for sluice relay --policy. The file's stays open.
func policyOf(name string) (p replay.Policy, err error) {
	if filepath.Ext(name) == ".o" {
		p = replay.Policy{Name: filepath.Base(name), New: func() media.DropPolicy { return nil }}
		p.Admit, err = fastpath.LoadRule(name, slog.Default())
		return p, err
	}
	i := slices.Index(policyNames(), name)
	if i < 0 {
		return p, cli.AsUsage(bounds.OneOf("--policy", name, append(policyNames(), "FILE.o")...))
	}
	return replayPolicies()[i], nil
}

// orAll returns the chosen names, each once, or all.
func orAll(chosen, all []string) (names []string) {
	for _, name := range chosen {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return all
	}
	return names
}

// cases returns mock media on the paths that the flags choose.
func (f *replayFlags) cases() (cases []replay.Case, err error) {
	media := replay.Mock(f.length)
	if f.ladder {
		media = replay.Ladder(f.length)
	}
	for _, name := range orAll(f.profiles, pathprofile.Names()) {
		p, ok := pathprofile.Find(name)
		if !ok {
			return nil, cli.AsUsage(bounds.OneOf("--profile", name, pathprofile.Names()...))
		}
		c := replay.Case{Name: name, Title: p.Title}
		for seed := range f.seeds {
			c.Traces = append(c.Traces, media.On(p, uint64(seed+1)))
		}
		cases = append(cases, c)
	}
	return cases, nil
}
