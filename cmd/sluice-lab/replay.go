package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/fastpath"
	"sluice/internal/bench/pathprofile"
	"sluice/internal/bench/replay"
	"sluice/internal/bench/report"
	"sluice/internal/bench/result"
	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/internal/rendition"
	"sluice/media"
)

// replayFlags are the flags of sluice-lab replay.
type replayFlags struct {
	profiles, policies, controllers []string
	rules, fastPath                 []string
	seeds                           int
	length, join                    time.Duration
	json                            bool
	out, record                     string
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
		Use:   "replay [TRACE...]",
		Short: "Try drop policies and congestion controllers on recorded paths, without a network",
		Long: `Replay what a publisher sent, over a path whose rate, delay and loss change as recorded, to one
subscriber. The media sender of the relay sends it, with each policy and each controller in turn. A table says what a
viewer would have seen. Time is simulated: a minute takes a moment, and the result is the same on every machine.

Without a TRACE, the media is mock video with four layers (2 Mbit/s), and audio, on each of the built-in paths. A TRACE
is lines of JSON, which docs/policies.md describes; --record writes one. --profile puts its media on built-in paths.

With --rendition, the mock media has three renditions of the video (2, 1 and 0.4 Mbit/s), of which the client chooses,
or the relay for it. The table then also says for how much of the time pictures moved at the best rendition that fits
the path.

Two policies are oracles, to compare others with: they know the path from the begin to the end, and send only what
arrives in time, within 1 s and within 400 ms. They do not choose among renditions.`,
		Example: `  sluice-lab replay
  sluice-lab replay --profile constant,lte --policy none,priority --out replayed
  sluice-lab replay --rendition client,relay --policy bytes --length 1m
  sluice-lab replay --profile lte,sawtooth --policy bytes --fastpath on,off --seeds 100
  sluice-lab replay --profile lte --record lte.jsonl
  sluice-lab replay --json lte.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), env, args) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.profiles, "profile", nil,
		"built-in `paths` (default all, or the traces' own): "+strings.Join(pathprofile.Names(), ", "))
	flags.StringSliceVar(&f.policies, "policy", nil,
		"drop `policies` (default all): "+strings.Join(policyNames(), ", ")+", or a FILE.o for sluice relay --policy")
	flags.StringSliceVar(&f.controllers, "congestion", nil,
		"congestion `controllers` (default all): "+strings.Join(controllerNames(), ", "))
	flags.StringSliceVar(&f.rules, "rendition", nil,
		"who chooses among renditions, `client` or relay, or both in turn (default: there is one rendition)")
	flags.StringSliceVar(&f.fastPath, "fastpath", nil,
		"whether a model of the kernel's fast path sends, too: `on` or off (default), or both in turn")
	flags.IntVar(&f.seeds, "seeds", 3,
		"`number` of replays of each, with other random losses, fades and times of changes; the table has medians")
	flags.DurationVar(&f.length, "length", 30*time.Second, "`duration` of the mock media")
	flags.DurationVar(&f.join, "join", 0,
		"the subscriber joins the mock media after this `time`, which may be within a group")
	flags.BoolVar(&f.json, "json", false, "write the results as JSON, as 'sluice-lab bench' does, instead of a table")
	flags.StringVar(&f.out, "out", "", "also write results.json, report.html, tables.md and plots into a `directory`")
	flags.StringVar(&f.record, "record", "", "write the trace of the only --profile to a `file`, and replay nothing")
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

func (f *replayFlags) run(ctx context.Context, env *cli.Environment, files []string) error {
	err := errors.Join(bounds.Check("--seeds", f.seeds, 1, maxSeeds),
		bounds.Check("--length", f.length, time.Second, maxReplay), bounds.Check("--join", f.join, 0, f.length/2))
	if err != nil {
		return cli.AsUsage(err)
	}
	if f.join > 0 && len(files) > 0 {
		return cli.Usage("--join: %v: is for mock media, not for the media of a trace", f.join)
	}
	subjects, err := f.subjects()
	if err != nil {
		return err
	}
	cases, err := f.cases(files)
	if err != nil {
		return err
	}
	if f.record != "" {
		return f.writeTrace(cases)
	}
	found, err := replay.Compare(ctx, cases, subjects)
	if err != nil {
		return err
	}
	found.Commit, found.Command = cli.Version(), slices.Concat([]string{programName}, env.Args)
	if f.json {
		e := json.NewEncoder(env.Stdout)
		e.SetIndent("", " ")
		err = e.Encode(found)
	} else {
		printReport(env.Stdout, found, replayShown)
	}
	if err != nil || f.out == "" {
		return err
	}
	found.Date = time.Now().UTC().Truncate(time.Second)
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	return errors.Join(found.WriteFile(filepath.Join(f.out, "results.json")), report.Write(f.out, *found))
}

// subjects returns each policy with each controller, and then the oracles, which have none.
func (f *replayFlags) subjects() (subjects []replay.Subject, err error) {
	controllers, policies := orAll(f.controllers, controllerNames()), orAll(f.policies, policyNames())
	variants, err := f.variants()
	if err != nil {
		return nil, err
	}
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
				if n == 0 && len(f.rules) == 0 { // they do not choose among renditions
					oracles = append(oracles, replay.Subject{Policy: policy})
				}
				continue
			}
			for _, s := range variants {
				s.Policy, s.Controller = policy, replay.Controllers()[i]
				subjects = append(subjects, s)
			}
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

// variants returns the other differences between subjects: who chooses among renditions, nobody by default, and whether
// the kernel sends, too.
func (f *replayFlags) variants() (all []replay.Subject, err error) {
	for _, name := range orAll(f.rules, []string{""}) {
		s := replay.Subject{Rule: rendition.Rule(name)}
		if name != "" && !slices.Contains(rendition.Rules(), s.Rule) {
			rules := []string{string(rendition.ByClient), string(rendition.ByRelay)}
			return nil, cli.AsUsage(bounds.OneOf("--rendition", name, rules...))
		}
		for _, value := range orAll(f.fastPath, []string{"off"}) {
			if err := bounds.OneOf("--fastpath", value, "on", "off"); err != nil {
				return nil, cli.AsUsage(err)
			}
			s.FastPath = value == "on"
			all = append(all, s)
		}
	}
	return all, nil
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

// cases returns the traces of files, or mock media, on the paths that the flags choose.
func (f *replayFlags) cases(files []string) (cases []replay.Case, err error) {
	if len(files) == 0 {
		mock := replay.Mock
		if len(f.rules) > 0 {
			mock = replay.Ladder
		}
		return f.onProfiles("", mock(f.length).From(f.join), orAll(f.profiles, pathprofile.Names()))
	}
	for _, name := range files {
		t, err := readTrace(name)
		if err != nil {
			return nil, err
		}
		base := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
		if len(f.profiles) == 0 {
			c := replay.Case{Name: base, Title: name, Traces: slices.Repeat([]*replay.Trace{t}, f.seeds)}
			cases = append(cases, c)
			continue
		}
		more, err := f.onProfiles(base+"/", t, orAll(f.profiles, nil))
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	return cases, nil
}

// onProfiles puts media on built-in paths.
func (f *replayFlags) onProfiles(prefix string, t *replay.Trace, profiles []string) (cases []replay.Case, err error) {
	for _, name := range profiles {
		p, ok := pathprofile.Find(name)
		if !ok {
			return nil, cli.AsUsage(bounds.OneOf("--profile", name, pathprofile.Names()...))
		}
		c := replay.Case{Name: prefix + name, Title: prefix + p.Title}
		for seed := range f.seeds {
			c.Traces = append(c.Traces, t.On(p, uint64(seed+1)))
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func readTrace(name string) (*replay.Trace, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	t, err := replay.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// writeTrace writes the trace of the only case, with its first seed.
func (f *replayFlags) writeTrace(cases []replay.Case) (err error) {
	if len(cases) != 1 {
		return cli.Usage("--record: writes one trace, not %d: name one --profile", len(cases))
	}
	file, err := os.Create(f.record)
	if err != nil {
		return err
	}
	return errors.Join(cases[0].Traces[0].Write(file), file.Close())
}
