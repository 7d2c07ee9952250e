package page

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"sluice/internal/rtt/history"
	"sluice/internal/rtt/report"
)

// heat is a scale of colours for RTTs: longer ones are darker, or brighter on a dark page.
type heat struct{ low, high float64 }

// newHeat makes the scale of the hours of all prefixes.
func newHeat(days []history.Day) *heat {
	h := noHeat()
	for i := range days {
		for k := range days[i].Hours {
			if hour := &days[i].Hours[k]; hour.Count > 0 {
				h.add(hour.Quantile(0.95))
			}
		}
	}
	return h
}

func noHeat() *heat { return &heat{math.Inf(1), math.Inf(-1)} }

func (h *heat) add(rtt time.Duration) {
	v := logOf(rtt)
	h.low, h.high = min(h.low, v), max(h.high, v)
}

// part returns where an RTT is on the scale, from 0 to 1.
func (h *heat) part(rtt time.Duration) float64 {
	if h.high <= h.low {
		return 0
	}
	return (logOf(rtt) - h.low) / (h.high - h.low)
}

// Colour returns the colour of an hour, as a CSS value.
func (h *heat) Colour(hour report.Histogram) template.CSS {
	if hour.Count == 0 {
		return "transparent"
	}
	return template.CSS(fmt.Sprintf("color-mix(in oklab, var(--hot) %.0f%%, var(--cold))",
		100*h.part(hour.Quantile(0.95))))
}

const (
	tileSize   = 8
	tileLevels = 7  // colours
	maxTiles   = 24 // prefixes
)

// tiles are the hours of a prefix, as one SVG path for each colour.
type tiles struct {
	Prefix        string
	Width, Height int
	Low, High     time.Duration // 95th percentiles
	Paths         [tileLevels]string
}

// newTiles draws the hours of the first ones of some prefixes, each with a scale of its own.
func newTiles(list []history.Series) (all []tiles) {
	days := 0
	for _, one := range list {
		days = max(days, len(one.Hours))
	}
	for i := range list[:min(len(list), maxTiles)] {
		if t := tilesOf(&list[i], days); t.High > 0 {
			all = append(all, t)
		}
	}
	return all
}

func tilesOf(one *history.Series, days int) tiles {
	t := tiles{Prefix: one.Prefix, Width: 24 * tileSize, Height: days * tileSize}
	scale := noHeat()
	eachHour(one, func(_, _ int, rtt time.Duration) {
		scale.add(rtt)
		t.High = max(t.High, rtt)
		if t.Low == 0 || rtt < t.Low {
			t.Low = rtt
		}
	})
	var paths [tileLevels]strings.Builder
	eachHour(one, func(day, hour int, rtt time.Duration) {
		level := int(math.Round(scale.part(rtt) * (tileLevels - 1)))
		fmt.Fprintf(&paths[level], "M%d %dh%dv%dh-%dz", hour*tileSize, day*tileSize, tileSize-1, tileSize-1, tileSize-1)
	})
	for level := range paths {
		t.Paths[level] = paths[level].String()
	}
	return t
}

// eachHour calls fn for each hour that has RTTs.
func eachHour(one *history.Series, fn func(day, hour int, p95 time.Duration)) {
	for day, hours := range one.Hours {
		for hour, rtt := range hours {
			if rtt > 0 {
				fn(day, hour, rtt)
			}
		}
	}
}
