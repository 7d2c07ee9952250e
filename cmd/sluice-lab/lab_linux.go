package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"sluice/internal/cli"
	"sluice/lab"
	"sluice/lab/control"
)

func newLab(env *cli.Environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Run hosts in network namespaces, joined by links that lose, delay and reorder packets",
		Long: `A lab is a publisher, relays and subscribers on one machine, each in a network namespace of its own:

    pub ── uplink ──[bridge]── up:relay:down ──[bridge]── downlink ── sub1, sub2, …

Several relays are side by side, and each host reaches all of them. Links lose, duplicate, reorder, delay and limit
packets on request; what they do follows from a seed. The lab lives in a background process and vanishes with it,
whatever happens. It needs root. docs/lab.md has the details.`,
		Example: `  sluice-lab lab up --subscribers 5 --loss 2% --delay 20ms --reorder 1%
  sluice-lab lab exec relay -- sluice relay --listen [::]:4443 --dev
  sluice-lab lab exec sub1 -- ping relay
  sluice-lab lab link sub1 rate=3mbit,loss=5%
  sluice-lab lab down`,
	}
	name := cmd.PersistentFlags().String("name", lab.DefaultName, "`name` of the lab; several can be up at a time")
	cmd.AddCommand(newLabUp(env, name), newLabDown(env, name), newLabExec(env, name), newLabStatus(env, name),
		newLabLink(env, name))
	return cmd
}

// labUpFlags are the flags of sluice-lab lab up.
type labUpFlags struct {
	topology                   lab.Topology
	every                      conditionFlags
	uplink, backbone, downlink string
	detached                   bool
}

func newLabUp(env *cli.Environment, name *string) *cobra.Command {
	f := new(labUpFlags)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Build a lab and keep it up in the background",
		Long: `Build a lab and keep it up in the background, until 'sluice-lab lab down'.

--rate, --queue, --delay, --loss, --duplicate and --reorder apply to the links of the publisher, of all relays after
the first and of all subscribers, in both directions. --uplink, --backbone and --downlink say the same for the
publisher, those relays and the subscribers alone, as a list such as
rate=3mbit,queue=50ms,delay=20ms,loss=2%,mark=1%,duplicate=0.1%,reorder=1%,gap=3,hold=10ms, or clean. Each host has a
link of its own, which 'sluice-lab lab link' changes while the lab is up.`,
		Example: `  sluice-lab lab up --subscribers 3
  sluice-lab lab up --subscribers 5 --loss 2% --delay 20ms --reorder 1%
  sluice-lab lab up --subscribers 10 --uplink clean --downlink rate=10mbit,delay=15ms
  sluice-lab lab up --relays 3 --backbone delay=20ms,loss=0.5%`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.apply(); err != nil {
				return cli.AsUsage(err)
			}
			if f.detached {
				return f.hold(cmd.Context(), *name)
			}
			return detach(cmd.Context(), env, *name)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *labUpFlags) register(flags *pflag.FlagSet) {
	flags.IntVarP(&f.topology.Subscribers, "subscribers", "n", 3, "number of subscriber hosts")
	flags.IntVar(&f.topology.Relays, "relays", 1, "number of relay hosts: relay, relay2, relay3, …")
	f.every.register(flags)
	flags.StringVar(&f.uplink, "uplink", "", "`conditions` of the publisher's link, instead of those for all links")
	flags.StringVar(&f.backbone, "backbone", "",
		"`conditions` of the links of the relays after the first, instead of those for all links")
	flags.StringVar(&f.downlink, "downlink", "",
		"`conditions` of the subscribers' links, instead of those for all links")
	flags.BoolVar(&f.topology.OneDevice, "one-device", false, "give the relay one device for both sides, named up")
	flags.BoolVar(&f.topology.SoftwareChecksums, "software-checksums", false,
		"let hosts compute UDP checksums, as if their devices could not")
	flags.Uint64Var(&f.topology.Seed, "seed", 1, "`seed` of all random decisions")
	flags.BoolVar(&f.detached, "detached", false, "be the background process")
	flags.MarkHidden("detached")
}

// apply parses the conditions that the flags name.
func (f *labUpFlags) apply() (err error) {
	for _, side := range []struct {
		flag, text string
		conditions *lab.Conditions
	}{
		{"--uplink", f.uplink, &f.topology.Uplink}, {"--backbone", f.backbone, &f.topology.Backbone},
		{"--downlink", f.downlink, &f.topology.Downlink},
	} {
		if *side.conditions, err = lab.ParseConditions(cmp.Or(side.text, f.every.String())); err != nil {
			return fmt.Errorf("%s: %w", side.flag, err)
		}
	}
	return nil
}

// endGrace is how long processes in a lab may take to end when it is taken down.
const endGrace = 2 * time.Second

// hold builds the lab and keeps it until the context is done or another process takes it down.
func (f *labUpFlags) hold(ctx context.Context, name string) (err error) {
	server, err := control.Listen(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	l, err := lab.New(ctx, f.topology)
	if err != nil {
		return err
	}
	defer func() {
		_, ended := l.EndProcesses(endGrace)
		err = errors.Join(err, ended, l.Close())
	}()
	if err := silence(); err != nil {
		return err
	}
	return server.Serve(ctx, l)
}

// silence closes the output: the process that waits for its end learns that the lab is up.
func silence() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return errors.Join(unix.Dup3(int(null.Fd()), 1, 0), unix.Dup3(int(null.Fd()), 2, 0))
}

// detach starts the background process and waits until the lab is up.
func detach(ctx context.Context, env *cli.Environment, name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	holder := exec.Command(self, append(slices.Clone(env.Args), "--detached")...)
	holder.Stdout, holder.Stderr, holder.Dir = write, write, "/"
	holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = holder.Start()
	write.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { holder.Process.Signal(unix.SIGTERM) })
	defer stop()
	output, err := io.ReadAll(read)
	if err != nil {
		return err
	}
	if len(output) > 0 { // it has failed and reported why
		holder.Wait()
		return errors.New(strings.TrimPrefix(strings.TrimSpace(string(output)), programName+": "))
	}
	if ctx.Err() != nil {
		holder.Wait()
		return ctx.Err()
	}
	return reportStatus(ctx, env, name, false)
}
