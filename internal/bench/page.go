package bench

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed page
var pageFiles embed.FS

// WriteReport writes into dir what people read: report.html, which needs no network and no other file, results.md, and
// plots/*.svg and *.png. It does not write results.json.
func WriteReport(dir string, r Report) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	charts := r.charts()
	if err := writePlots(filepath.Join(dir, "plots"), charts); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "report.html"), func(w io.Writer) error { return r.writePage(w, charts) }); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "results.md"), func(w io.Writer) error { return r.writeSummary(w, charts) })
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}

// page is what page.html is filled with.
type page struct {
	Report
	Style    template.CSS
	Script   template.JS
	Sections []section
	Losses   []loss
	Worse    int // comparisons, as Wins and Ties
	Wins     int
	Ties     int
	Data     pageData
}

// pageData is what page.js draws.
type pageData struct {
	Systems []string `json:"systems"`
	Charts  []chart  `json:"charts"`
}

// section is all about the scenarios of a kind.
type section struct {
	Kind    string
	Title   string
	Figures []figure
	Tables  []table
}

// figure is the charts of which the page shows one at a time.
type figure struct {
	Name   string
	Charts []chart
}

func (r Report) writePage(w io.Writer, charts []chart) error {
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
	p := page{Report: r, Style: template.CSS(style), Script: template.JS(script), Sections: r.sections(charts)}
	p.Losses, p.Worse, p.Wins, p.Ties = r.losses()
	p.Data.Charts = append([]chart{}, charts...)
	for _, s := range r.Systems {
		p.Data.Systems = append(p.Data.Systems, s.Name)
	}
	return t.Execute(w, p)
}

func (r Report) sections(charts []chart) []section {
	var out []section
	for _, kind := range r.kinds() {
		s := section{Kind: kind, Title: heading(kind), Tables: r.tables(kind)}
		for _, c := range charts {
			if c.kind != kind {
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
	"minutes": func(seconds float64) string { return number(seconds/60).String() + " min" },
	"gib":     func(bytes uint64) string { return number(float64(bytes)/(1<<30)).String() + " GiB" },
	"percent": func(share float64) string { return number(share*100).String() + " %" },
	"number":  func(v float64) string { return number(v).String() },
	"colour":  func(i int) int { return i % len(palette) },
}

// quoteCommands makes command lines that a shell splits into the same words. Merge puts ";" between commands.
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
