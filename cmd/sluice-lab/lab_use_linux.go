package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/lab"
	"sluice/lab/control"
)

func newLabDown(env *cli.Environment, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End a lab and the processes in it",
		Long: `End a lab: the processes in its hosts, then the hosts. It is not an error if the lab is not up.
Nothing remains of a lab whose process was killed.`,
		Example: `  sluice-lab lab down`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := control.Dial(*name)
			if errors.Is(err, control.ErrNotUp) {
				fmt.Fprintln(env.Stderr, err)
				return nil
			}
			if err != nil {
				return err
			}
			return client.Down(cmd.Context())
		},
	}
}

func newLabExec(env *cli.Environment, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "exec HOST -- COMMAND [ARGUMENT…]",
		Short: "Run a command inside a host",
		Long: `Run a command inside a host: pub, relay, relay2, …, sub1, sub2, …, or net, the network in the middle.
The command finds the hosts under these names; from a subscriber, relay is the relay's address on its side. Input,
output, signals and exit code are the command's own.`,
		Example: `  sluice-lab lab exec relay -- sluice relay --listen [::]:4443 --dev
  sluice-lab lab exec sub1 -- sluice sub --relay moqt://relay:4443 --tls-disable-verify --namespace demo --out demo.mp4
  sluice-lab lab exec relay -- tcpdump -ni down udp
  sluice-lab lab exec sub2 -- bash`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := dialLab(*name)
			if err != nil {
				return err
			}
			return client.Exec(cmd.Context(), args[0], args[1:], append(os.Environ(), "SLUICE_LAB="+*name))
		},
	}
}

func newLabStatus(env *cli.Environment, name *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the hosts of a lab, its links, their conditions and what they did to packets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return reportStatus(cmd.Context(), env, *name, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// dialLab finds a lab. Its error names the labs that are up.
func dialLab(name string) (*control.Client, error) {
	client, err := control.Dial(name)
	if errors.Is(err, control.ErrNotUp) {
		hint := "start it with 'sluice-lab lab up'"
		if names, _ := control.Names(); len(names) > 0 {
			hint = "these labs are up: " + strings.Join(names, ", ")
		}
		return nil, fmt.Errorf("%w; %s", err, hint)
	}
	return client, err
}

func reportStatus(ctx context.Context, env *cli.Environment, name string, asJSON bool) error {
	client, err := dialLab(name)
	if err != nil {
		return err
	}
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return cli.WriteJSON(env.Stdout, status)
	}
	printHosts(env.Stdout, status)
	printCounts(env.Stdout, status)
	return nil
}

func printHosts(w io.Writer, status lab.Status) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "HOST\tDEVICE\tIPV4\tIPV6\tTO HOST\tFROM HOST")
	for _, h := range status.Hosts {
		for _, d := range h.Devices {
			to, from := d.ToHost.Conditions.String(), d.FromHost.Conditions.String()
			if !d.Up {
				to, from = "down", "down"
			}
			fmt.Fprintf(table, "%s\t%s\t%v\t%v\t%s\t%s\n", h.Name, d.Name, d.IPv4.Addr(), d.IPv6.Addr(), to, from)
		}
	}
}

// printCounts prints the counts of each link.
func printCounts(w io.Writer, status lab.Status) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer table.Flush()
	header := "\nLINK\tDIRECTION\tPACKETS\tLOST\tDUPLICATED\tREORDERED\tDELAYED\tQUEUE DROPS\n"
	for _, h := range status.Hosts {
		for _, d := range h.Devices {
			for _, way := range []struct {
				name  string
				stats lab.LinkStats
			}{{"to host", d.ToHost.Stats}, {"from host", d.FromHost.Stats}} {
				if s := way.stats; s.Packets > 0 {
					fmt.Fprintf(table, "%s%s:%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", header, h.Name, d.Name, way.name,
						s.Packets, s.Lost, s.Duplicated, s.Reordered, s.Delayed, s.QueueDrops)
					header = ""
				}
			}
		}
	}
}

// labLinkFlags are the flags of sluice-lab lab link.
type labLinkFlags struct {
	toHost, fromHost   bool
	down, up           bool
	rebind, newAddress bool
}

func newLabLink(env *cli.Environment, name *string) *cobra.Command {
	f := new(labLinkFlags)
	cmd := &cobra.Command{
		Use:   "link HOST[:DEVICE] [CONDITIONS]",
		Short: "Change a link while the lab is up",
		Long: `Change the link of a host: what it does to packets, or whether it is there. CONDITIONS replace those
that are set; they are a list such as
rate=3mbit,queue=50ms,delay=20ms,loss=2%,mark=1%,duplicate=0.1%,reorder=1%,gap=3,hold=10ms, or clean.`,
		Example: `  sluice-lab lab link sub1 rate=3mbit,loss=5%      # both directions
  sluice-lab lab link sub1 --from-host loss=100%
  sluice-lab lab link sub1 clean
  sluice-lab lab link relay:down --down
  sluice-lab lab link sub2 --rebind                 # like a NAT that forgot the port`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := f.change(args)
			if err != nil {
				return cli.AsUsage(err)
			}
			client, err := dialLab(*name)
			if err != nil {
				return err
			}
			return client.Apply(cmd.Context(), change)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.toHost, "to-host", false, "change only the direction to the host")
	flags.BoolVar(&f.fromHost, "from-host", false, "change only the direction from the host")
	flags.BoolVar(&f.down, "down", false, "unplug the link")
	flags.BoolVar(&f.up, "up", false, "plug the link in")
	flags.BoolVar(&f.rebind, "rebind", false, "change the UDP ports under which the host is seen")
	flags.BoolVar(&f.newAddress, "new-address", false, "give the host other addresses")
	cmd.MarkFlagsMutuallyExclusive("to-host", "from-host")
	cmd.MarkFlagsMutuallyExclusive("down", "up")
	return cmd
}

func (f *labLinkFlags) change(args []string) (lab.Change, error) {
	var change lab.Change
	change.Host, change.Device, _ = strings.Cut(args[0], ":")
	change.Rebind, change.ChangeAddress = f.rebind, f.newAddress
	if f.down || f.up {
		change.Up = &f.up
	}
	if len(args) < 2 {
		if change.Up == nil && !f.rebind && !f.newAddress {
			return change, errors.New("nothing to change: name CONDITIONS, --down, --up, --rebind or --new-address")
		}
		return change, nil
	}
	c, err := lab.ParseConditions(args[1])
	if !f.fromHost {
		change.ToHost = &c
	}
	if !f.toHost {
		change.FromHost = &c
	}
	return change, err
}
