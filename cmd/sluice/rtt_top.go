package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/internal/rtt"
	"sluice/internal/rtt/report"
	"sluice/internal/rtt/top"
)

// topFlags are the flags of sluice rtt top.
type topFlags struct {
	measureFlags
	refresh float64 // s
	updates int
	by      string
	sort    string
}

func newRTTTop(env *cli.Environment) *cobra.Command {
	f := new(topFlags)
	cmd := &cobra.Command{
		Use:   "top -i INTERFACE",
		Short: "Show the flows or networks with the largest RTT, loss or traffic",
		Long: `Show flows or network prefixes, sorted by RTT, loss or traffic, and keep the table up to date.

Keys: r, l, b sort by RTT, loss, bytes; f, p show flows or prefixes; q ends. Without a terminal, or with -n, tables are
written one after the other.

A flow is listed once for each direction in which it is measured: DESTINATION sends, SOURCE replies. LOSS is the part
of the TCP segments that were sent again, or of the echoes without reply.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	flags := cmd.Flags()
	f.register(flags)
	flags.Float64VarP(&f.refresh, "delay", "d", 1, "update every this many `seconds`")
	flags.IntVarP(&f.updates, "updates", "n", 0, "end after this `number` of updates; 0: never")
	flags.StringVar(&f.by, "by", "flow", "show flow or prefix")
	flags.StringVar(&f.sort, "sort", string(top.SortRTT), "sort by rtt, loss or bytes")
	return cmd
}

func (f *topFlags) check() error {
	if len(f.cfg.Interfaces) == 0 {
		return errors.New("nothing to measure: name an interface with -i")
	}
	return cmp.Or(
		bounds.OneOf("--by", f.by, "flow", "prefix"),
		bounds.OneOf("--sort", f.sort, string(top.SortRTT), string(top.SortLoss), string(top.SortBytes)),
		bounds.AtLeast("--delay", f.refresh, 1),
		f.measureFlags.check())
}

func (f *topFlags) run(ctx context.Context, env *cli.Environment) (err error) {
	if err := f.check(); err != nil {
		return cli.AsUsage(err)
	}
	cfg, err := f.config()
	if err != nil {
		return err
	}
	cfg.Quiet = true
	cfg.Aggregate = seconds(f.refresh)
	v := &topView{
		out: env.Stdout, prefixes: f.by == "prefix", title: strings.Join(f.cfg.Interfaces, " "), left: f.updates,
		flows: top.Table{Sort: top.SortKey(f.sort)}, networks: top.Table{Sort: top.SortKey(f.sort), Prefixes: true},
	}
	cfg.Sink = v
	if v.monitor, err = rtt.New(cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.monitor.Close()) }()
	defer f.regroupOnHangup(v.monitor)()
	if f.updates == 0 && cli.IsTerminal(env.Stdout) {
		if v.terminal, err = openTerminal(env.Stdin, env.Stdout); err != nil {
			return err
		}
		defer v.terminal.close()
	}
	return v.run(ctx)
}

// topView draws the measurements of each interval. It is the Sink of its Monitor.
type topView struct {
	monitor         *rtt.Monitor
	out             io.Writer
	terminal        *terminal // nil: write one table after the other
	title           string
	left            int // updates; 0: no limit
	prefixes        bool
	flows, networks top.Table
	keys            chan byte
	updates         chan *report.Interval
	ended           chan struct{}
}

// errTopEnds ends the view without an error.
var errTopEnds = errors.New("top ends")

func (v *topView) run(ctx context.Context) error {
	v.updates, v.ended = make(chan *report.Interval), make(chan struct{})
	g, inner := errgroup.WithContext(ctx)
	v.keys = v.terminal.keys(inner)
	g.Go(func() error { return v.monitor.Run(inner) })
	g.Go(func() error {
		defer close(v.ended)
		return v.draw(inner)
	})
	if err := g.Wait(); ctx.Err() == nil && !errors.Is(err, errTopEnds) {
		return err
	}
	return nil
}

// Interval passes the interval on to be drawn.
func (v *topView) Interval(i *report.Interval) error {
	select {
	case v.updates <- i:
	case <-v.ended:
	}
	return nil
}

// Sample, Flow and Flush are not called: nothing is reported.
func (v *topView) Sample(*report.Sample) error  { return nil }
func (v *topView) Flow(*report.FlowEvent) error { return nil }
func (v *topView) Flush() error                 { return nil }

func (v *topView) draw(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case key := <-v.keys:
			if !v.press(key) {
				return errTopEnds
			}
		case i := <-v.updates:
			if err := v.update(i); err != nil {
				return err
			}
			if v.left--; v.left == 0 {
				v.render()
				return errTopEnds
			}
		}
		v.render()
	}
}

func (v *topView) update(i *report.Interval) error {
	flows, err := v.monitor.Flows()
	if err != nil {
		return err
	}
	v.flows.UpdateFlows(i.End, flows)
	v.networks.UpdatePrefixes(i)
	return nil
}

// press handles a key. It returns false to end the view.
func (v *topView) press(key byte) bool {
	sorts := map[byte]top.SortKey{'r': top.SortRTT, 'l': top.SortLoss, 'b': top.SortBytes}
	switch key {
	case 'q', 3, 4: // q, and Ctrl-C and Ctrl-D as a raw terminal sends them
		return false
	case 'f', 'p':
		v.prefixes = key == 'p'
	case 'r', 'l', 'b':
		v.flows.SortBy(sorts[key])
		v.networks.SortBy(sorts[key])
	}
	return true
}

func (v *topView) render() {
	table, unit := &v.flows, "flow directions"
	if v.prefixes {
		table, unit = &v.networks, "prefixes"
	}
	width, height := v.terminal.size()
	title := fmt.Sprintf("sluice rtt top  %s  %s  %d %s", v.title, time.Now().Format(time.TimeOnly), table.Len(), unit)
	if v.terminal != nil {
		title += "   sort: r l b   flows, prefixes: f p   quit: q"
	}
	v.terminal.show(v.out, append([]string{title[:min(len(title), width)]}, table.Render(width, height-1)...))
}
