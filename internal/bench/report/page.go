package report

import (
	"embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"sluice/internal/bench/chart"
	"sluice/internal/bench/result"
)

//go:embed page
var pageFiles embed.FS

// page is the data of the template page.html.
type page struct {
	result.Report
	Style    template.CSS
	Script   template.JS
	Sections []section
	Standing result.Standing
	// HostTable has no rows if there was a lab.
	HostTable table
	Data      pageData
}

// pageData is the data that page.js draws.
type pageData struct {
	Systems []string      `json:"systems"`
	Charts  []chart.Chart `json:"charts"`
}

// section has the figures and the tables of a kind of scenarios.
type section struct {
	Kind    string
	Title   string
	Figures []figure
	Tables  []table
}

// figure is a set of charts; the page shows one at a time.
type figure struct {
	Name   string
	Charts []chart.Chart
}

func (v view) writePage(w io.Writer, charts []chart.Chart) error {
	style, err := pageFiles.ReadFile("page/page.css")
	if err != nil {
		return err
	}
	script, err := pageFiles.ReadFile("page/page.js")
	if err != nil {
		return err
	}
	t, err := template.New("page.html").Funcs(pageFunctions).ParseFS(pageFiles, "page/page.html")
	if err != nil {
		return err
	}
	p := page{Report: v.Report, Style: template.CSS(style), Script: template.JS(script)}
	p.Sections, p.Standing, p.HostTable = v.sections(charts), v.Standing(), v.hostTable()
	p.Data.Charts = append([]chart.Chart{}, charts...)
	for _, s := range v.Systems {
		p.Data.Systems = append(p.Data.Systems, s.Name)
	}
	return t.Execute(w, p)
}

func (v view) sections(charts []chart.Chart) []section {
	var out []section
	for _, kind := range v.Kinds() {
		s := section{Kind: kind, Title: heading(kind), Tables: v.tables(kind)}
		for _, c := range charts {
			if c.Kind != kind {
				continue
			}
			i := slices.IndexFunc(s.Figures, func(f figure) bool { return f.Name == c.Figure })
			if i < 0 {
				i = len(s.Figures)
				s.Figures = append(s.Figures, figure{Name: c.Figure})
			}
			s.Figures[i].Charts = append(s.Figures[i].Charts, c)
		}
		out = append(out, s)
	}
	return out
}

var pageFunctions = template.FuncMap{
	"command": quoteCommands,
	"date":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
	"minutes": func(seconds float64) string { return result.Number(seconds/60).String() + " min" },
	"gib":     func(bytes uint64) string { return result.Number(float64(bytes)/(1<<30)).String() + " GiB" },
	"percent": func(share float64) string { return result.Number(share*100).String() + " %" },
	"number":  func(v float64) string { return result.Number(v).String() },
	"colour":  func(i int) int { return i % len(chart.Colours) },
}

// quoteCommands returns command lines that a shell splits into the same words. result.Merge puts ";" between commands.
func quoteCommands(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.ContainsFunc(w, mustQuote) && w != ";" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted[i] = w
	}
	return strings.ReplaceAll(strings.Join(quoted, " "), " ; ", "\n")
}

func mustQuote(r rune) bool {
	const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%"
	return !strings.ContainsRune(harmless, r)
}
