package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/lab/bench/chart"
	"sluice/lab/bench/result"
)

// maxListed bounds the list of metrics by which others are better.
const maxListed = 25

// writeTables writes the main tables of the report as Markdown, with the first plot of each figure.
func (v view) writeTables(w io.Writer, charts []chart.Chart) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Tables of a benchmark\n\n%s\n", wrap(v.origin(), ""))
	fmt.Fprintf(b, "    %s\n\n", breakCommand(v.Command))
	systems := table{Columns: []string{"system", "version", "started with"}}
	for _, s := range v.Systems {
		systems.Rows = append(systems.Rows, []string{s.Name, s.Version, s.Command})
	}
	systems.markdown(b)
	if t := v.hostTable(); len(t.Rows) > 0 {
		t.markdown(b)
	}
	v.writeStanding(b)
	for _, kind := range v.Kinds() {
		fmt.Fprintf(b, "## %s\n\n", escapeMarkdown(heading(kind)))
		for _, t := range v.tables(kind) {
			fmt.Fprintf(b, "**%s**\n\n", escapeMarkdown(t.Title))
			t.markdown(b)
		}
		for _, c := range firstOfFigures(kind, charts) {
			fmt.Fprintln(b, wrap(fmt.Sprintf("![%s](plots/%s.svg)", escapeMarkdown(c.Title), c.ID), ""))
		}
	}
	return b.Flush()
}

// origin returns where the numbers are from.
func (v view) origin() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s, commit `%s`, in %s minutes, on %s", v.Date.UTC().Format("2006-01-02"),
		code(v.Commit),
		result.Number(v.Duration/60), escapeMarkdown(v.Machine.String()))
	if v.Machine.Virtualised != "" {
		fmt.Fprintf(&b, " (virtualised: %s)", escapeMarkdown(v.Machine.Virtualised))
	}
	fmt.Fprintf(&b, ". The hypervisor gave %s %% of the CPU time to others.", result.Number(v.Machine.Steal*100))
	if len(v.Machine.Offloads) > 0 {
		fmt.Fprintf(&b, " Offloads of the network devices: %s.", escapeMarkdown(v.Machine.OffloadList()))
	}
	return b.String() + " Each cell is the median of the runs, with the lowest and the highest."
}

// maxColumns is the width of lines, which rows of tables may exceed.
const maxColumns = 120

// wrap breaks a text into lines, each with a line end. All but the first begin with indent.
func wrap(text, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+length > maxColumns:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String() + "\n"
}

// firstOfFigures returns the first chart of each figure.
func firstOfFigures(kind string, charts []chart.Chart) []chart.Chart {
	var out []chart.Chart
	for _, c := range charts {
		sameFigure := func(o chart.Chart) bool { return o.Figure == c.Figure }
		if c.Kind == kind && !slices.ContainsFunc(out, sameFigure) {
			out = append(out, c)
		}
	}
	return out
}

// writeStanding writes how the subject compares with the other systems.
func (v view) writeStanding(w io.Writer) {
	st := v.Standing()
	fmt.Fprintf(w, "## Where others are better than %s\n\n", escapeMarkdown(v.Subject()))
	fmt.Fprintf(w, "Of the comparisons with another system, it is worse beyond the spread of the runs in %d,\n"+
		"better in %d, and %d are within the spread.\n\n", st.Worse, st.Better, st.Even)
	if len(st.Behind) == 0 {
		return
	}
	t := table{Columns: []string{"scenario", "metric", v.Subject(), "better", "times"}}
	for _, b := range st.Behind[:min(len(st.Behind), maxListed)] {
		t.Rows = append(t.Rows, []string{b.Scenario, b.Metric, b.Subject, b.Others, b.Factor.String()})
	}
	if more := len(st.Behind) - maxListed; more > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d more have smaller factors.", more))
	}
	t.markdown(w)
}

// breakCommand returns a command that a shell splits into the same words, in lines of a code block. Only what begins
// with a dash begins a line.
func breakCommand(words []string) string {
	var b strings.Builder
	column := 0
	for i, w := range words {
		w = quote(w)
		needs := 1 + utf8.RuneCountInString(w)
		if i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			needs += 1 + utf8.RuneCountInString(quote(words[i+1]))
		}
		switch {
		case i == 0:
		case column+needs > maxColumns-10 && strings.HasPrefix(w, "-"):
			b.WriteString(" \\\n        ")
			column = 4
		default:
			b.WriteByte(' ')
		}
		b.WriteString(w)
		column += 1 + utf8.RuneCountInString(w)
	}
	return b.String()
}

// quote returns a word as a shell needs it.
func quote(w string) string {
	if w == "" || strings.ContainsFunc(w, mustQuote) {
		return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return w
}

func mustQuote(r rune) bool {
	const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%"
	return !strings.ContainsRune(harmless, r)
}

var markdownEscapes = strings.NewReplacer("\n", " ", "\r", " ", "|", `\|`, "<", "&lt;", "&", "&amp;",
	"`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`)

// escapeMarkdown returns the Markdown that shows s.
func escapeMarkdown(s string) string { return markdownEscapes.Replace(s) }

// code returns s as it can stand between backquotes.
func code(s string) string { return strings.NewReplacer("`", "'", "\n", " ").Replace(s) }

// headings are the headings of kinds whose capitalized name would not do.
var headings = map[string]string{result.KindCPU: "CPU", result.KindSyscalls: "System calls",
	result.KindRTSP: "RTSP", "": "Other"}

func heading(kind string) string {
	if h, ok := headings[kind]; ok {
		return h
	}
	return strings.ToUpper(kind[:1]) + kind[1:]
}
