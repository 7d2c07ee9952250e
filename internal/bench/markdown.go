package bench

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLossesListed bounds the list in the summary; the page has all.
const maxLossesListed = 25

// writeSummary writes what matters of the report as Markdown, with some of the plots.
func (r Report) writeSummary(w io.Writer, charts []chart) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Results\n\nMeasured on %s, commit `%s`, in %s minutes, on %s", r.Date.UTC().Format("2006-01-02"), code(r.Commit),
		number(r.Duration/60), escapeMarkdown(r.Machine.String()))
	if r.Machine.Virtualised != "" {
		fmt.Fprintf(b, " (virtualised: %s)", escapeMarkdown(r.Machine.Virtualised))
	}
	fmt.Fprintf(b, ". The hypervisor gave %s %% of the CPU time to others.\n", number(r.Machine.Steal*100))
	if len(r.Machine.Offloads) > 0 {
		fmt.Fprintf(b, "Offloads of the lab's devices: %s.\n", escapeMarkdown(r.Machine.offloads()))
	}
	fmt.Fprintf(b, "Each cell is the median of the runs, with the lowest and the highest.\n\n")
	fmt.Fprintf(b, "    %s\n\n", strings.ReplaceAll(quoteCommands(r.Command), "\n", "\n    "))
	systems := table{Columns: []string{"system", "version", "started with"}}
	for _, s := range r.Systems {
		systems.Rows = append(systems.Rows, []string{s.Name, s.Version, s.Command})
	}
	systems.markdown(b)
	r.lossesMarkdown(b)
	for _, kind := range r.kinds() {
		fmt.Fprintf(b, "## %s\n\n", escapeMarkdown(heading(kind)))
		for _, t := range r.tables(kind) {
			if t.Aside || t.Detail {
				continue
			}
			fmt.Fprintf(b, "**%s**\n\n", escapeMarkdown(t.Title))
			t.markdown(b)
		}
		for _, c := range firstOfFigures(kind, charts) {
			fmt.Fprintf(b, "![%s](plots/%s.svg)\n\n", escapeMarkdown(c.Title), c.ID)
		}
	}
	return b.Flush()
}

// firstOfFigures are what the page shows at first.
func firstOfFigures(kind string, charts []chart) []chart {
	var out []chart
	for _, c := range charts {
		if c.kind == kind && !slices.ContainsFunc(out, func(o chart) bool { return o.Figure == c.Figure }) {
			out = append(out, c)
		}
	}
	return out
}

func (r Report) lossesMarkdown(w io.Writer) {
	losses, worse, wins, ties := r.losses()
	fmt.Fprintf(w, "## Where %s loses\n\n", escapeMarkdown(r.subject()))
	fmt.Fprintf(w, "Beyond the spread of the runs it is worse in %d comparisons with another system, better in %d, and %d are within the spread.\n\n",
		worse, wins, ties)
	if len(losses) == 0 {
		return
	}
	t := table{Columns: []string{"scenario", "metric", r.subject(), "better", "times"}}
	for _, l := range losses[:min(len(losses), maxLossesListed)] {
		t.Rows = append(t.Rows, []string{l.Scenario, l.Metric, l.Ours, l.Theirs, l.Factor.String()})
	}
	if more := len(losses) - maxLossesListed; more > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d smaller ones are in the page.", more))
	}
	t.markdown(w)
}

func (t table) markdown(w io.Writer) {
	row := func(cells []string) {
		for i, c := range cells {
			cells[i] = escapeMarkdown(c)
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
	columns := append([]string{}, t.Columns...)
	row(columns)
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(columns)))
	for _, cells := range t.Rows {
		row(append([]string{}, cells...))
	}
	fmt.Fprintln(w)
	for _, n := range t.Notes {
		fmt.Fprintf(w, "* %s\n", escapeMarkdown(n))
	}
	if len(t.Notes) > 0 {
		fmt.Fprintln(w)
	}
}

var markdownEscapes = strings.NewReplacer("\n", " ", "\r", " ", "|", `\|`, "<", "&lt;", "&", "&amp;", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`)

// escapeMarkdown makes what Markdown shows as s.
func escapeMarkdown(s string) string { return markdownEscapes.Replace(s) }

// code is what can stand between backquotes.
func code(s string) string { return strings.NewReplacer("`", "'", "\n", " ").Replace(s) }

// headings of the kinds whose names are no words.
var headings = map[string]string{KindCPU: "CPU", KindSyscalls: "System calls", "": "Other"}

func heading(kind string) string {
	if h, ok := headings[kind]; ok {
		return h
	}
	return strings.ToUpper(kind[:1]) + kind[1:]
}
