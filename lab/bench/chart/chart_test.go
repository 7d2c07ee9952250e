package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
)

func TestSameNamesMakeDifferentFiles(t *testing.T) {
	charts := []Chart{{ID: "a/b"}, {ID: "A b"}, {ID: "a b"}, {ID: "…"}, {ID: strings.Repeat("x", 300)}}
	UniqueIDs(charts)
	var ids []string
	for _, c := range charts {
		ids = append(ids, c.ID)
	}
	require.Equal(t, []string{"a-b", "a-b-2", "a-b-3", "chart", strings.Repeat("x", 80)}, ids)
}

func TestAddAndHasValues(t *testing.T) {
	c := Chart{Traces: []Trace{{Name: "a"}}}
	require.False(t, c.HasValues())
	c.Traces[0].Add(1, result.Statistic{})
	c.Traces[0].Add(2, result.Statistic{Median: math.NaN(), Min: math.NaN(), Max: math.NaN()})
	require.False(t, c.HasValues(), "zero and unknown")
	c.Traces[0].Add(3, result.Statistic{Median: 2, Min: 1, Max: 3})
	require.True(t, c.HasValues())
	require.Equal(t, []result.Number{3, 2, 1, 3},
		[]result.Number{c.Traces[0].X[2], c.Traces[0].Y[2], c.Traces[0].Low[2], c.Traces[0].High[2]})
}

// samples are a chart of each form, with values that a form cannot show.
func samples() []Chart {
	nan := result.Unknown
	x := []result.Number{0, 1, 10, 100}
	traces := []Trace{
		{Name: "one", X: x, Y: []result.Number{0.5, 1, nan, 4}},
		{Name: "two & <more>", System: 1, X: x, Y: []result.Number{1, 2, 3, 9}, Low: []result.Number{1, 1, nan, 8},
			High: []result.Number{1, 3, 4, 9}},
	}
	at := []result.Number{0, 1}
	columns := []Trace{
		{Name: "user", X: at, Y: []result.Number{1, 2}, Low: []result.Number{0, 2}, High: []result.Number{2, 2}},
		{Name: "system", System: 1, X: at, Y: []result.Number{3, nan}},
	}
	wide := []string{strings.Repeat("a long name ", 5), strings.Repeat("another one ", 5)}
	return []Chart{
		{Title: "a CDF", Form: CDF, X: Axis{Title: "delay", Unit: "ms", Log: true}, Y: Axis{Title: "fraction"},
			Traces: traces},
		{Title: "lines", Form: Lines, X: Axis{Title: "time", Unit: "s"}, Y: Axis{Unit: "Mbit/s"}, Traces: traces},
		{Title: "bars", Form: Bars, X: Axis{Categories: []string{"1", "10"}}, Y: Axis{Unit: "%"}, Traces: columns},
		{Title: "wide", Form: Bars, X: Axis{Title: "subscribers", Categories: wide}, Y: Axis{Unit: "%"},
			Traces: columns},
		{Title: "empty", Form: Lines},
		{Title: "one point", Form: Lines, X: Axis{Log: true}, Traces: []Trace{{Name: "p", X: at[1:], Y: at[1:]}}},
	}
}

func TestDrawSVG(t *testing.T) {
	for _, c := range samples() {
		var b bytes.Buffer
		require.NoError(t, Draw(&b, c), c.Title)
		require.NotContains(t, b.String(), "NaN", c.Title)
		texts := svgTexts(t, &b)
		require.Contains(t, texts, c.Title)
		for _, a := range []Axis{c.X, c.Y} {
			for _, text := range append(a.Categories, result.WithUnit(a.Title, a.Unit)) {
				require.Contains(t, append(texts, ""), text, c.Title)
			}
		}
		for _, trace := range c.Traces {
			require.Contains(t, texts, trace.Name, c.Title)
		}
	}
}

// svgTexts returns the texts of an SVG file, which must be XML.
func svgTexts(t *testing.T, r io.Reader) (texts []string) {
	for d := xml.NewDecoder(r); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		if s, ok := token.(xml.CharData); ok {
			texts = append(texts, string(s))
		}
	}
}

func TestLogTicks(t *testing.T) {
	labels := func(low, high float64) (out []string) {
		for _, tick := range logTicks(low, high) {
			if tick.Label != "" {
				out = append(out, tick.Label)
			}
		}
		return out
	}
	require.Equal(t, []string{"0.5", "1", "2", "5", "10", "20"}, labels(.5, 20))
	require.Equal(t, []string{"0.1", "1", "10", "100", "1000"}, labels(.1, 1000), "a long range has fewer labels")
}
