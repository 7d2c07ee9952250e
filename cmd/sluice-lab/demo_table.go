package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"sluice/internal/cli"
	"sluice/lab/measure"
	"sluice/relay"
)

// demoTable shows how much the subscribers have received. On a terminal it is updated while they play.
type demoTable struct {
	demo     *demo
	w        io.Writer
	reasons  int // to show of each subscriber
	terminal bool
	lines    int // to go up for the next table
}

func newDemoTable(w io.Writer, d *demo, verbose bool) *demoTable {
	reasons := cli.TopReasons
	if verbose {
		reasons = math.MaxInt
	}
	return &demoTable{demo: d, w: w, reasons: reasons, terminal: cli.IsTerminal(w)}
}

// update replaces the table.
func (t *demoTable) update() {
	if t.terminal {
		t.print()
	}
}

func (t *demoTable) print() {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	t.rows(table)
	table.Flush()
	if t.lines > 0 {
		fmt.Fprintf(t.w, "\x1b[%dA\x1b[J", t.lines)
	}
	t.lines = bytes.Count(b.Bytes(), []byte("\n"))
	t.w.Write(b.Bytes())
}

func (t *demoTable) rows(w *tabwriter.Writer) {
	fmt.Fprintln(w, "\tOVER\tOBJECTS\tKERNEL\tPROCESS\tDELAY P50\tP99\tSTATE")
	for _, h := range t.demo.hops() {
		if h.subscriber == nil {
			fmt.Fprintf(w, "%s\tQUIC\t-\t%s\t%s\tfrom %s\n", h.to, h.packetsText(),
				delayText(t.demo.stage.delays(h.to)), h.from.host)
			continue
		}
		s, objects := h.subscriber, "-"
		if s.state() != playing {
			objects = fmt.Sprintf("%d/%d", s.objects(), t.demo.want.count)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", h.to, s.over, objects,
			h.packetsText(), delayText(t.demo.stage.delays(h.to)), s.state())
	}
}

// hop is the way from a relay to the next relay, or to a subscriber.
type hop struct {
	from       *demoRelay
	to         string
	subscriber *demoSubscriber // nil if to is a relay
}

// sent returns the relay's counters of the hop.
func (h hop) sent() relay.SessionStatus { return h.from.session(h.to) }

// packetsText returns two cells: the packets that the kernel and the relay's process have sent.
func (h hop) packetsText() string {
	sent := h.sent().Packets
	if !h.from.usesKernel() {
		return fmt.Sprintf("-\t%d", sent.Process)
	}
	return fmt.Sprintf("%d\t%d", sent.Kernel, sent.Process)
}

// maxExplained is how many hops are explained unless all reasons are asked for.
const maxExplained = 5

// explain prints for each hop why the kernel left packets to the process.
func (t *demoTable) explain(w io.Writer) {
	for i, h := range t.demo.hops() {
		if i == maxExplained && t.reasons == cli.TopReasons {
			fmt.Fprintf(w, "  … (--verbose shows all)\n")
			return
		}
		if text := cli.CountsText(h.sent().Declined, t.reasons); text != "" {
			fmt.Fprintf(w, "  left to the process for %s: %s\n", h.to, text)
		}
	}
}

// delayText returns two cells: the median and the 99th percentile.
func delayText(d measure.Delays) string {
	if len(d) == 0 {
		return "-\t-"
	}
	ms := func(q float64) string { return fmt.Sprintf("%.2f ms", float64(d.Quantile(q))/1e6) }
	return ms(.5) + "\t" + ms(.99)
}

// summary prints how many subscribers received everything, and the work of the relays.
func (t *demoTable) summary() {
	var all measure.Delays
	whole := 0
	for _, s := range t.demo.subscribers {
		all = append(all, t.demo.stage.delays(s.Name)...)
		if s.state() == identical {
			whole++
		}
	}
	want := t.demo.want
	fmt.Fprintf(t.w, "\n%d of %d subscribers received the clip byte for byte: %d objects, %s, %s of media\n",
		whole, len(t.demo.subscribers), want.count, cli.BytesText(want.bytes), cli.SecondsText(want.duration))
	for _, r := range t.demo.relays {
		t.shareOf(r)
	}
	if len(all) > 0 {
		at := func(q float64) time.Duration { return all.Quantile(q).Round(time.Microsecond) }
		fmt.Fprintf(t.w, "%s added p50 %v, p90 %v, p99 %v, max %v of delay to %d bursts of packets\n",
			t.relays(), at(.5), at(.9), at(.99), at(1), len(all))
	}
}

// shareOf prints the kernel's share of a relay's packets.
func (t *demoTable) shareOf(r *demoRelay) {
	var sent relay.SentPackets
	var declined uint64
	for _, h := range t.demo.hops() {
		if h.from != r {
			continue
		}
		session := h.sent()
		sent.Kernel, sent.Process = sent.Kernel+session.Packets.Kernel, sent.Process+session.Packets.Process
		for _, n := range session.Declined {
			declined += n
		}
	}
	where := "the kernel"
	if len(t.demo.relays) > 1 {
		where += " of " + r.host
	}
	if total := sent.Kernel + sent.Process; r.usesKernel() && total > 0 {
		fmt.Fprintf(t.w, "%s sent %.1f %% of %d packets with media, and declined to send %d\n",
			where, 100*float64(sent.Kernel)/float64(total), total, declined)
	}
}

func (t *demoTable) relays() string {
	if n := len(t.demo.relays); n > 1 {
		return fmt.Sprintf("the %d relays and their links", n)
	}
	return "the relay"
}
