package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/lab"
	"sluice/lab/measure"
	"sluice/lab/process"
	"sluice/player/pub"
)

// demoFlags are the flags of sluice-lab demo.
type demoFlags struct {
	relays      int
	subscribers int
	clip        string
	loopback    bool
	fastPath    string
	verbose     bool
	conditions  conditionFlags
}

func newDemo(env *cli.Environment) *cobra.Command {
	f := new(demoFlags)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Relay a clip to several subscribers and check that each gets every byte",
		Long: `Build a lab, run a relay, a publisher and subscribers in it, publish a clip at the pace of its
timestamps, and compare what each subscriber receives with the source, byte by byte. Every second subscriber connects
over WebTransport. The table shows for each how many packets with media the kernel and the relay's process have sent,
and the delay that the relay has added. With --relays, the publisher is at the first of several relays and the
subscribers are at the last; each relay subscribes at the one before it, and has a row, too.

The demo succeeds only if everything was received, nothing differs and every process ended well. Without root there is
no lab: the demo runs on loopback, and leaves out what only the lab can show.`,
		Example: `  sudo sluice-lab demo
  sudo sluice-lab demo --subscribers 5 --loss 2% --delay 20ms --reorder 1%
  sudo sluice-lab demo --relays 3
  sluice-lab demo --loopback --clip film.mp4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.relays, "relays", 1, "number of relays, one behind the other")
	flags.IntVarP(&f.subscribers, "subscribers", "n", 3, "number of subscribers")
	flags.StringVar(&f.clip, "clip", "",
		"fragmented MP4 `file` to publish (default: the sample clip, testdata/clip.mp4)")
	flags.BoolVar(&f.loopback, "loopback", false, "run on loopback even if a lab could be built")
	flags.StringVar(&f.fastPath, "fastpath", "auto", "the relays' --fastpath: auto, on or off; off on loopback")
	flags.BoolVarP(&f.verbose, "verbose", "v", false,
		"show every reason why the kernel left packets to the relay's process")
	f.conditions.register(flags)
	return cmd
}

const (
	demoNamespace = "demo/clip"
	// demoSetUp is how long each step before and after the media may take, on a busy machine.
	demoSetUp = 30 * time.Second
)

// stage is where the processes of the demo run.
type stage interface {
	// command starts sluice with arguments as a process of a host; see startProcess.
	command(ctx context.Context, host string, args ...string) (*process.Process, error)
	// relayAddress returns the address by which a host reaches a relay.
	relayAddress(relay, host string) string
	// dial connects a host to a TCP address.
	dial(ctx context.Context, host, address string) (net.Conn, error)
	// delays returns the delays from when the first relay gets a burst of packets until a host has been sent it. It is
	// nil if they are not measured.
	delays(host string) measure.Delays
	close() error
}

func (f *demoFlags) run(ctx context.Context, env *cli.Environment) (err error) {
	conditions, err := f.check()
	if err != nil {
		return cli.AsUsage(err)
	}
	clip, err := f.findClip()
	if err != nil {
		return err
	}
	want, err := openSource(clip)
	if err != nil {
		return &pub.InputError{Err: err}
	}
	s, where, err := f.openStage(ctx, conditions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	fmt.Fprintln(env.Stdout, where)

	ctx, cancel := context.WithTimeoutCause(ctx, want.duration+3*demoSetUp, errors.New("the demo takes too long"))
	defer cancel()
	d := newDemoRun(s, clip, want, f.fastPath)
	if _, ok := s.(loopbackStage); ok {
		d.fastPath = "off" // its programs would be attached to this host's own devices
	}
	table := newDemoTable(env.Stdout, d, f.verbose)
	err = d.play(ctx, f.relays, f.subscribers, table.update)
	if len(d.subscribers) > 0 {
		table.print()
		table.explain(env.Stdout)
		table.summary()
	}
	return err
}

func (f *demoFlags) check() (lab.Conditions, error) {
	if err := errors.Join(bounds.Check("--relays", f.relays, 1, lab.MaxRelays),
		bounds.Check("--subscribers", f.subscribers, 1, lab.MaxSubscribers)); err != nil {
		return lab.Conditions{}, err
	}
	return lab.ParseConditions(f.conditions.String())
}

// openStage builds the lab. If that is not possible, where says why the demo runs on loopback.
func (f *demoFlags) openStage(ctx context.Context, conditions lab.Conditions) (s stage, where string, err error) {
	why := "as asked for"
	if !f.loopback {
		s, err := openLabStage(ctx, f.relays, f.subscribers, conditions)
		if err == nil {
			relays := "relay"
			if f.relays > 1 {
				relays = fmt.Sprintf("%d relays", f.relays)
			}
			return s, fmt.Sprintf("lab: publisher, %s and %d subscribers in network namespaces, links: %v",
				relays, f.subscribers, conditions), nil
		}
		missing, ok := errors.AsType[*lab.MissingError](err)
		if !ok {
			return nil, "", err
		}
		why = missing.Error()
	}
	if conditions != (lab.Conditions{}) {
		return nil, "", cli.Usage("loopback (%s) has no links that could be %v", why, conditions)
	}
	return loopbackStage{}, "loopback (" + why + "); left out: separate hosts and links, the kernel's fast path, " +
		"and the delay that the relay adds", nil
}

// findClip returns the path of the clip.
func (f *demoFlags) findClip() (string, error) {
	if f.clip != "" {
		return filepath.Abs(f.clip)
	}
	return findSample()
}

// findSample returns the path of the sample clip.
func findSample() (string, error) {
	const sample = "testdata/clip.mp4"
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, clip := range []string{sample, filepath.Join(filepath.Dir(self), "..", sample)} {
		if _, err := os.Stat(clip); err == nil {
			return filepath.Abs(clip)
		}
	}
	return "", fmt.Errorf("the sample clip %s is not here: run this in Sluice's source directory", sample)
}
