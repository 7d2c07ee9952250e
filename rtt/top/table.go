package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/rtt/report"
)

// SortKey is the column that rows are sorted by, largest value first.
type SortKey string

// Sort keys.
const (
	SortRTT   SortKey = "rtt"
	SortLoss  SortKey = "loss"
	SortBytes SortKey = "bytes"
)

// A Table has the flows or prefixes of its last update, sorted. Its zero value is sorted by RTT.
type Table struct {
	Sort SortKey
	// Prefixes is set if the rows are prefixes, whose one column replaces the first three.
	Prefixes bool
	rows     []topRow
	parts    []string               // of RTTs that rows have, in the order of their columns
	last     map[report.Ends]uint64 // bytes of each direction of a flow at the last update
	at       time.Time
}

// topRow is one line.
type topRow struct {
	protocol, source, destination string
	rtt, min                      time.Duration
	loss, sent, received          share                    // of packets that are lost; of a prefix, by direction, too
	path                          bool                     // the RTTs are of the whole path
	rate                          float64                  // bytes/s
	parts                         map[string]time.Duration // the medians of parts of the RTTs
}

// share is a part of something, if there is anything.
type share struct {
	part  float64
	known bool
}

func newShare(part, all uint64) share {
	if all == 0 {
		return share{}
	}
	return share{min(1, float64(part)/float64(all)), true}
}

// percent returns the share as text.
func (s share) percent() string {
	if !s.known {
		return "-"
	}
	return fmt.Sprintf("%.2f", 100*s.part)
}

// UpdateFlows replaces the rows with flows.
func (t *Table) UpdateFlows(now time.Time, flows []report.FlowState) {
	elapsed := now.Sub(t.at).Seconds()
	before := t.last
	t.last, t.at, t.rows = make(map[report.Ends]uint64, len(flows)), now, nil
	for i := range flows {
		f := &flows[i]
		bytes := f.Sent.Bytes + f.Received.Bytes
		t.last[f.Ends] = bytes
		row := topRow{
			protocol:    f.Protocol,
			source:      f.Source.String() + string(f.AppendPlace(nil)),
			destination: f.Destination.String(),
			rtt:         f.SmoothedRTT,
			min:         f.MinRTT,
			path:        f.OneDirection,
		}
		row.loss.part, row.loss.known = f.Loss()
		if old, ok := before[f.Ends]; ok && elapsed > 0 && bytes >= old {
			row.rate = float64(bytes-old) / elapsed
		}
		t.rows = append(t.rows, row)
	}
	t.sort()
}

// UpdatePrefixes replaces the rows with prefixes.
func (t *Table) UpdatePrefixes(i *report.Interval) {
	t.rows = nil
	all := make(map[string]bool) // parts
	for n := range i.Prefixes {
		p := &i.Prefixes[n]
		row := topRow{
			source: p.Label(), rtt: p.RTT.Quantile(0.5), min: p.RTT.Min, parts: make(map[string]time.Duration),
			loss: lossOf(p.Both()), sent: lossOf(p.Sent), received: lossOf(p.Received),
		}
		if elapsed := i.End.Sub(i.Start); elapsed > 0 {
			row.rate = float64(p.Both().Total().Bytes) / elapsed.Seconds()
		}
		for _, part := range p.Parts() {
			row.parts[part.Name] = part.RTTs.Quantile(0.5)
			all[part.Name] = true
		}
		if path := &p.OneDirection; p.RTT.Count == 0 && path.Count > 0 { // only one direction passes
			row.rtt, row.min, row.path = path.Quantile(0.5), path.Min, true
		}
		t.rows = append(t.rows, row)
	}
	t.parts = slices.Sorted(maps.Keys(all))
	t.sort()
}

// lossOf returns the share of lost packets, where losses are known: TCP segments that were sent again, and packets of
// QUIC that their senders reported as lost.
func lossOf(t report.PrefixTraffic) share {
	return newShare(t.Retransmissions+t.QUIC.Reported, t.TCPSegments()+t.QUIC.Passed)
}

// SortBy sorts the table by another key.
func (t *Table) SortBy(key SortKey) {
	t.Sort = key
	t.sort()
}

func (t *Table) sort() {
	key := func(r *topRow) float64 {
		switch t.Sort {
		case SortLoss:
			return r.loss.part
		case SortBytes:
			return r.rate
		}
		return float64(r.rtt)
	}
	slices.SortStableFunc(t.rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(key(&b), key(&a)), strings.Compare(a.source, b.source),
			strings.Compare(a.destination, b.destination))
	})
}

// column is a title, its width, and the key that sorts by it.
type column struct {
	title string
	width int
	key   SortKey
}

// columns are common to all tables. SOURCE and DESTINATION share the rest of the line.
var columns = []column{
	{"PROTO", 7, ""}, {"SOURCE", 0, ""}, {"DESTINATION", 0, ""}, {"RTT ms", 11, SortRTT}, {"MIN ms", 11, ""},
	{"LOSS %", 8, SortLoss}, {"KBYTE/s", 12, SortBytes},
}

// prefixColumns are further ones of prefixes. They are last, where narrow terminals cut the line.
var prefixColumns = []column{{"SENT LOSS %", 13, ""}, {"RCVD LOSS %", 13, ""}}

// columns returns all columns, one for each part of RTTs included.
func (t *Table) columns() []column {
	all := slices.Clone(columns)
	for _, part := range t.parts {
		title := strings.ToUpper(part) + " ms"
		all = append(all, column{title, max(11, len(title)+2), ""})
	}
	if t.Prefixes {
		all = append(all, prefixColumns...)
	}
	return all
}

// Render returns the table in at most the given number of lines of at most the given width.
func (t *Table) Render(width, lines int) []string {
	fixed := 0
	for _, c := range t.columns() {
		fixed += c.width
	}
	name := max(15, (width-fixed)/2)
	text := []string{t.header(name, width)}
	for i := range t.rows {
		if len(text) >= lines {
			break
		}
		text = append(text, cut(t.ends(&t.rows[i], name)+t.numbers(&t.rows[i]), width))
	}
	return text
}

func (t *Table) header(name, width int) string {
	var b strings.Builder
	for _, c := range t.columns() {
		title := c.title
		if c.key != "" && c.key == t.sortKey() {
			title += "▼"
		}
		switch c.title {
		case "PROTO":
			fmt.Fprintf(&b, "%-*s", c.width, title)
		case "SOURCE", "DESTINATION":
			fmt.Fprintf(&b, "%-*s", name, title)
		default:
			fmt.Fprintf(&b, "%*s", c.width, title)
		}
	}
	text := b.String()
	if t.Prefixes {
		named := columns[0].width + 2*name
		text = fmt.Sprintf("%-*s%s", named, "PREFIX", text[named:])
	}
	return cut(text, width)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

func (t *Table) sortKey() SortKey { return cmp.Or(t.Sort, SortRTT) }

// ends returns the first columns of a row: the flow, or the prefix.
func (t *Table) ends(r *topRow, name int) string {
	if t.Prefixes {
		return fmt.Sprintf("%-*s", columns[0].width+2*name, r.source)
	}
	return fmt.Sprintf("%-*s%-*s%-*s", columns[0].width, r.protocol, name, cut(r.source, name-1), name,
		cut(r.destination, name-1))
}

// numbers returns the columns after the ends.
func (t *Table) numbers(r *topRow) string {
	values := []string{r.marked(r.rtt), r.marked(r.min), r.loss.percent(), fmt.Sprintf("%.1f", r.rate/1000)}
	for _, part := range t.parts {
		values = append(values, milliseconds(r.parts[part]))
	}
	values = append(values, r.sent.percent(), r.received.percent())
	var b strings.Builder
	for i, c := range t.columns()[3:] {
		fmt.Fprintf(&b, "%*s", c.width, values[i])
	}
	return b.String()
}

// marked returns an RTT of the row, with a star if it is of the whole path.
func (r *topRow) marked(rtt time.Duration) string {
	if r.path && rtt != 0 {
		return milliseconds(rtt) + "*"
	}
	return milliseconds(rtt)
}

func milliseconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", d.Seconds()*1000)
}

// cut shortens a line to a number of characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:max(n, 0)])
	}
	return s
}
