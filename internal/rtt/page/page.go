package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"time"

	"sluice/internal/rtt/history"
	"sluice/internal/rtt/report"
)

//go:embed page.html
var text string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"time":       func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
	"date":       func(t time.Time) string { return t.UTC().Format("Mon 2006-01-02") },
	"rtt":        rttText,
	"percent":    percentText,
	"directions": directionsText,
	"count":      countText,
	"p":          func(h report.Histogram, q float64) time.Duration { return h.Quantile(q) },
	"rttof":      rttOf,
	"chart":      newChart,
	"spark":      newSpark,
	"parts":      partCharts,
	"heat":       newHeat,
	"tiles":      newTiles,
	"step":       stepText,
	"few":        func(all []history.Change) []history.Change { return all[:min(len(all), maxChanges)] },
	"others":     func(all []history.Change) int { return max(0, len(all)-maxChanges) },
}).Parse(text))

// Write writes the page.
func Write(w io.Writer, s *history.Summary) error { return page.Execute(w, s) }

// maxChanges is how many changes of a prefix are written out: RTTs that double each evening have two a day.
const maxChanges = 4

// stepText writes a time of whole minutes, or of whole hours.
func stepText(d time.Duration) string {
	if hours := d.Truncate(time.Hour); d == hours && d > time.Hour {
		return fmt.Sprintf("%.0f hours", hours.Hours())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// rttText writes a duration with three digits.
func rttText(d time.Duration) string {
	switch ms := d.Seconds() * 1000; {
	case ms < 1:
		return fmt.Sprintf("%.3g µs", ms*1000)
	case ms < 1000:
		return fmt.Sprintf("%.3g ms", ms)
	default:
		return fmt.Sprintf("%.3g s", ms/1000)
	}
}

// percentText writes a share, or a dash if there is nothing to share.
func percentText(part, all uint64) string {
	if all == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g %%", 100*float64(part)/float64(all))
}

// directionsText writes the shares of what was sent, and of what was received; or that of both, if the direction of
// some is not known, as in files of earlier versions.
func directionsText(sent, allSent, received, allReceived, both, all uint64) string {
	if allSent+allReceived == 0 || allSent+allReceived < all {
		return percentText(both, all)
	}
	return percentText(sent, allSent) + " / " + percentText(received, allReceived)
}

// countText writes a number of things with a prefix of the SI.
func countText(n uint64) string {
	v := float64(n)
	for _, prefix := range []string{"", " k", " M", " G"} {
		if v < 99999.5 {
			return fmt.Sprintf("%.0f%s", v, prefix)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.0f T", v)
}

// rttOf writes a quantile, or a dash without RTTs.
func rttOf(h *report.Histogram, q float64) string {
	if h == nil || h.Count == 0 {
		return "–"
	}
	return rttText(h.Quantile(q))
}

func logOf(d time.Duration) float64 { return math.Log(max(d.Seconds(), 1e-9)) }
