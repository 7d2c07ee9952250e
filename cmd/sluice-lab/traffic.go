package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/rtt/pcap"
	"sluice/rtt/traffic"
)

// trafficFlags are the flags of sluice-lab traffic.
type trafficFlags struct {
	cfg   traffic.Config
	begin string
	out   string
}

func newTraffic(env *cli.Environment) *cobra.Command {
	f := new(trafficFlags)
	cmd := &cobra.Command{
		Use:   "traffic",
		Short: "Make a capture of synthetic traffic of an internet provider, for sluice-rtt",
		Long: `Write a capture (pcap) of what a monitor between the customers of an internet provider and the internet
would see: downloads by TCP with timestamps and by QUIC, whose sizes have a heavy tail, DNS queries and pings. A few
prefixes and servers have most of the traffic. The load is highest in the evening. The same flags give the same bytes.

Packets have no payload, but the lengths that they would have with it, so an hour of the default takes 130 MB.`,
		Example: `  sluice-lab traffic --length 1h -w hour.pcap
  sluice-lab traffic --length 24h -w - | sluice-rtt --pcap /dev/stdin --all -r 0 -a 60 --history day
  sluice-lab traffic --length 10m --day 10m -w day.pcap    # a day in ten minutes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "write", "w", "", "write to this `file`; -: to standard output")
	flags.Uint64Var(&f.cfg.Seed, "seed", 1, "make other traffic of the same kind with another `number`")
	flags.DurationVar(&f.cfg.Length, "length", 10*time.Minute, "`duration` of the capture")
	flags.DurationVar(&f.cfg.Day, "day", 24*time.Hour, "`duration` of a day: with less than 24h, evenings come sooner")
	flags.Float64Var(&f.cfg.Flows, "flows", 12, "begin this many `flows` in a second, on average over a day")
	flags.IntVar(&f.cfg.Prefixes, "prefixes", 100_000, "`number` of prefixes that customers have, /24 and /48 in turn")
	flags.BoolVar(&f.cfg.TCP, "tcp", false, "make only TCP flows")
	flags.StringVar(&f.begin, "begin", "2026-01-01T00:00:00Z", "`time` of the first packet (RFC 3339)")
	return cmd
}

func (f *trafficFlags) run(ctx context.Context, env *cli.Environment) (err error) {
	if f.out == "" {
		return cli.Usage("nothing to write to: name a file with -w, or - for standard output")
	}
	if f.cfg.Begin, err = time.Parse(time.RFC3339, f.begin); err != nil {
		return cli.Usage("--begin: %q: must be a time such as 2026-01-01T00:00:00Z", f.begin)
	}
	if err := f.cfg.Validate(); err != nil {
		return cli.AsUsage(err)
	}
	if f.out == "-" {
		return f.write(ctx, env, env.Stdout)
	}
	file, err := os.Create(f.out)
	if err != nil {
		return err
	}
	return errors.Join(f.write(ctx, env, file), file.Close())
}

// write writes the capture, and says at the end how much it is.
func (f *trafficFlags) write(ctx context.Context, env *cli.Environment, out io.Writer) error {
	buffered := bufio.NewWriterSize(out, 1<<18)
	w, err := pcap.NewWriter(buffered)
	if err != nil {
		return err
	}
	packets, bytes := 0, uint64(0)
	for p := range traffic.Packets(f.cfg) {
		if err := errors.Join(ctx.Err(), w.Write(p)); err != nil {
			return err
		}
		packets, bytes = packets+1, bytes+uint64(p.Length)
	}
	fmt.Fprintf(env.Stderr, "%d packets, %s on the wire\n", packets, cli.BytesText(bytes))
	return buffered.Flush()
}
