package main

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"sluice/lab"
)

// demoTable shows what the subscribers have received: on a terminal while they do.
type demoTable struct {
	demo     *demo
	w        io.Writer
	terminal bool
	lines    int // to go up for the next table
}

func newDemoTable(w io.Writer, d *demo) *demoTable {
	return &demoTable{demo: d, w: w, terminal: isTerminal(w)}
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
	fmt.Fprintln(table, "SUBSCRIBER\tOVER\tOBJECTS\tBYTES\tRATE\tDELAY P50\tP99\tSTATE")
	for _, s := range t.demo.subscribers {
		r := s.got.status()
		fmt.Fprintf(table, "%s\t%s\t%d/%d\t%s\t%.2f Mbit/s\t%s\t%s\n", s.name, s.over, r.objects, t.demo.want.count, bytesText(r.bytes),
			r.rate()/1e6, delayText(t.demo.stage.delays(s.name)), s.state(r.err))
	}
	table.Flush()
	if t.lines > 0 {
		fmt.Fprintf(t.w, "\x1b[%dA\x1b[J", t.lines)
	}
	t.lines = bytes.Count(b.Bytes(), []byte("\n"))
	t.w.Write(b.Bytes())
}

// identical is the state of a subscriber that ended well.
const identical = "identical"

// state is what a subscriber does, given what its checker says.
func (s *demoSubscriber) state(difference error) string {
	select {
	case <-s.done:
	default:
		return "playing"
	}
	switch {
	case s.err != nil:
		return "failed"
	case difference != nil:
		return "differs"
	}
	return identical
}

// delayText is two cells: the median and the 99th percentile.
func delayText(d lab.Delays) string {
	if len(d) == 0 {
		return "-\t-"
	}
	ms := func(q float64) string { return fmt.Sprintf("%.2f ms", float64(d.Quantile(q))/1e6) }
	return ms(.5) + "\t" + ms(.99)
}

// summary says how it went.
func (t *demoTable) summary() {
	var all lab.Delays
	whole := 0
	for _, s := range t.demo.subscribers {
		all = append(all, t.demo.stage.delays(s.name)...)
		if s.state(s.got.status().err) == identical {
			whole++
		}
	}
	want := t.demo.want
	fmt.Fprintf(t.w, "\n%d of %d subscribers received the clip byte for byte: %d objects, %s, %s of media\n",
		whole, len(t.demo.subscribers), want.count, bytesText(want.bytes), secondsText(want.duration))
	if len(all) > 0 {
		at := func(q float64) time.Duration { return all.Quantile(q).Round(time.Microsecond) }
		fmt.Fprintf(t.w, "delay that the relay added, first packet in to first packet out: p50 %v, p90 %v, p99 %v, max %v (%d bursts)\n",
			at(.5), at(.9), at(.99), at(1), len(all))
	}
}
