package command

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
	"sluice/rtt"
	"sluice/rtt/report"
	"sluice/rtt/top"
)

// topFlags are the flags of sluice-rtt top.
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

A flow is listed once for each direction in which it is measured: DESTINATION sends, SOURCE replies. A star marks RTTs
of the whole path, if only packets of DESTINATION are seen. LOSS is the part of the TCP segments that were sent again,
or of the echoes without reply. Of prefixes, two more columns have it of what their hosts sent and received, and the
last ones have the medians of parts: those that --aggregate-parts and --aggregate-load tell apart, of queries, and of
the whole path where one direction is seen.`,
		Example: "  sluice-rtt top -i eth0 --all",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
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
		return errors.New("nothing to show: name an interface with -i")
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
	cfg.Quiet, cfg.Aggregate = true, seconds(f.refresh)
	if err := cfg.Check(); err != nil {
		return cli.AsUsage(err)
	}
	v := &topView{
		out: env.Stdout, prefixes: f.by == "prefix", left: f.updates,
		flows: top.Table{Sort: top.SortKey(f.sort)}, networks: top.Table{Sort: top.SortKey(f.sort), Prefixes: true},
		intervals: make(chan *report.Interval), ended: make(chan struct{}),
	}
	if f.updates == 0 && cli.IsTerminal(env.Stdout) {
		if v.terminal, err = openTerminal(env.Stdin, env.Stdout); err != nil {
			return err
		}
		defer v.terminal.close()
	}
	v.title = strings.Join(f.cfg.Interfaces, " ")
	cfg.Sink = v
	if v.monitor, err = rtt.New(cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.monitor.Close()) }()
	defer f.regroupOnHangup(v.monitor)()
	return v.run(ctx)
}

// topView draws tables, each time that an interval ends or a key is pressed. It is the Sink of a Monitor.
type topView struct {
	report.IntervalsOnly
	monitor         *rtt.Monitor
	out             io.Writer
	terminal        *terminal // nil: write one table after the other
	title           string
	left            int // updates; 0: no limit
	prefixes        bool
	flows, networks top.Table
	keys            chan byte
	intervals       chan *report.Interval
	ended           chan struct{}
}

// errTopEnds ends the view without an error.
var errTopEnds = errors.New("top ends")

// run measures and draws, until one of them ends.
func (v *topView) run(ctx context.Context) error {
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

// Interval passes an interval on to where tables are drawn.
func (v *topView) Interval(i *report.Interval) error {
	select {
	case v.intervals <- i:
	case <-v.ended:
	}
	return nil
}

func (v *topView) draw(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case key := <-v.keys:
			if !v.press(key) {
				return errTopEnds
			}
		case i := <-v.intervals:
			flows, err := v.monitor.Flows()
			if err != nil {
				return err
			}
			v.flows.UpdateFlows(i.End, flows)
			v.networks.UpdatePrefixes(i)
			if v.left--; v.left == 0 {
				v.render()
				return errTopEnds
			}
		}
		v.render()
	}
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
	title := fmt.Sprintf("sluice-rtt top  %s  %s  %d %s", v.title, time.Now().Format(time.TimeOnly), table.Len(), unit)
	if v.terminal != nil {
		title += "   sort: r l b   flows, prefixes: f p   quit: q"
	}
	v.terminal.show(v.out, append([]string{title[:min(len(title), width)]}, table.Render(width, height-1)...))
}
