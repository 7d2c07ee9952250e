package page

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/history"
	"sluice/internal/rtt/report"
	"sluice/internal/rtt/report/reporttest"
)

var began = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)

// someHistory writes a history of three days: RTTs follow the hour of the day, those of one prefix double after a day
// and a half, and nothing is measured for four hours.
func someHistory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	w, err := history.NewWriter(dir, history.Limits{Size: 1 << 30}, nil)
	require.NoError(t, err)
	for n := range 3 * 24 * 2 {
		at := began.Add(time.Duration(n) * 30 * time.Minute)
		if hours := at.Sub(began).Hours(); hours >= 50 && hours < 54 {
			continue
		}
		i := &report.Interval{Start: at, End: at.Add(30 * time.Minute), Aggregation: new(report.Aggregation)}
		day := 1 + math.Sin(2*math.Pi*(at.Sub(began).Hours()-9)/24)
		for p, ms := range []float64{8, 25, 60} {
			if p == 2 && n >= 72 {
				ms *= 2
			}
			i.Prefixes = append(i.Prefixes, report.Prefix{
				Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(64 * p)}), 26),
				Sent: report.PrefixTraffic{
					TCPTimestamps: report.Traffic{Packets: 1000, Bytes: 1e6}, Retransmissions: uint64(p),
					ECNCapable: 500, ECNMarked: uint64(5 * day),
				},
				Received:     report.PrefixTraffic{TCPTimestamps: report.Traffic{Packets: 500, Bytes: 3e4}},
				LossReceived: report.Loss{All: 640, Passed: 625, Reported: 25},
				RTT:          histogramAround(ms * (1 + 0.3*day)),
			})
		}
		require.NoError(t, w.Interval(i))
	}
	require.NoError(t, w.Close())
	return dir
}

// histogramAround returns a histogram of 100 RTTs, from half of a number of milliseconds to three times of it.
func histogramAround(ms float64) (h report.Histogram) {
	for i := range 100 {
		rtt := time.Duration(ms * math.Exp2(float64(i*i)/4000-0.9) * 1e6)
		one := report.Histogram{Count: 1, Min: rtt, Max: rtt, Sum: rtt}
		bin := 1 + int(math.Floor(math.Log2(rtt.Seconds())*32)) - report.FirstPower
		one.Bins = make([]uint64, bin+1)
		one.Bins[bin] = 1
		h.Add(&one)
	}
	return h
}

func TestPage(t *testing.T) {
	s, err := history.Summarize(someHistory(t), history.Query{From: began, To: began.AddDate(1, 0, 0)}, 10)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Write(&b, s))
	require.NoError(t, os.WriteFile(filepath.Join(t.ArtifactDir(), "page.html"), b.Bytes(), 0o600))
	text := b.String()
	for _, want := range []string{
		"<h1>RTTs from 2026-07-01 00:00 to 2026-07-04 00:00 UTC</h1>", "<dd>3</dd>", "192.0.2.128/26",
		"2026-07-02 12:00: ", "Wed 2026-07-01", "30 min", "<dt>QUIC packets lost</dt><dd>4 %</dd>",
		"<td>0.2 % / 0 %</td><td>– / 4 %</td>",
	} {
		require.Contains(t, text, want)
	}
	require.Less(t, strings.Index(text, "192.0.2.128/26"), strings.Index(text, "192.0.2.64/26"), "the worst is first")
	for _, never := range []string{"<script", "http:", "https:", "NaN", "Inf", "ZgotmplZ", "%!"} {
		require.NotContains(t, text, never)
	}
	require.Equal(t, 4, strings.Count(text, `class="p95" d="M`), "of all, and of each prefix")
	_, line, _ := strings.Cut(text, `class="p95" d="`)
	line, _, _ = strings.Cut(line, `"`)
	require.Equal(t, 2, strings.Count(line, "M"), "the line has one gap")
}

// The elements of the drawings are balanced.
func TestDrawings(t *testing.T) {
	s, err := history.Summarize(someHistory(t), history.Query{From: began, To: began.AddDate(1, 0, 0)}, 1)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Write(&b, s))
	for rest := b.String(); ; {
		_, after, found := strings.Cut(rest, "<svg")
		if !found {
			return
		}
		drawing, after, _ := strings.Cut(after, "</svg>")
		d := xml.NewDecoder(strings.NewReader("<svg" + drawing + "</svg>"))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
		}
		rest = after
	}
}

// One prefix, one step, and names that need quoting.
func TestPageOfLittle(t *testing.T) {
	dir := t.TempDir()
	w, err := history.NewWriter(dir, history.Limits{Size: 1 << 30}, nil)
	require.NoError(t, err)
	require.NoError(t, w.Interval(&report.Interval{
		Start: began, End: began.Add(time.Minute), Aggregation: new(report.Aggregation),
		Prefixes: []report.Prefix{{Group: "<b>", RTT: histogramAround(1)}},
	}))
	require.NoError(t, w.Close())
	s, err := history.Summarize(dir, history.Query{From: began, To: began.AddDate(1, 0, 0)}, 1)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Write(&b, s))
	require.Contains(t, b.String(), "&lt;b&gt;")
	require.NotContains(t, b.String(), "NaN")
	require.Contains(t, b.String(), "L480.0 ", "a single point is drawn")
}

func TestTexts(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 µs", 7629: "7.63 µs", time.Millisecond: "1 ms", 12345 * time.Microsecond: "12.3 ms",
		1500 * time.Millisecond: "1.5 s",
	} {
		require.Equal(t, want, rttText(d))
	}
	for n, want := range map[uint64]string{
		0: "0", 99_999: "99999", 100_000: "100 k", 12_345_678: "12346 k", 123e6: "123 M",
	} {
		require.Equal(t, want, countText(n))
	}
	for d, want := range map[time.Duration]string{
		time.Minute: "1 min", time.Hour: "60 min", 90 * time.Minute: "90 min", 6 * time.Hour: "6 hours",
	} {
		require.Equal(t, want, stepText(d))
	}
	require.Equal(t, "–", percentText(0, 0))
	require.Equal(t, "0.5 %", percentText(1, 200))
	require.Equal(t, "0.5 % / –", directionsText(1, 200, 0, 0, 1, 200))
	require.Equal(t, "0.5 %", directionsText(0, 0, 0, 0, 1, 200), "of a file of an earlier version")
	require.Equal(t, "0.5 %", directionsText(1, 20, 0, 20, 1, 200), "of files of both versions")
}

func TestPageOfParts(t *testing.T) {
	dir := t.TempDir()
	w, err := history.NewWriter(dir, history.Limits{Size: 1 << 30}, nil)
	require.NoError(t, err)
	i := reporttest.Parts()
	for range 20 {
		require.NoError(t, w.Interval(i))
	}
	require.NoError(t, w.Close())
	s, err := history.Summarize(dir, history.Query{To: i.End}, 10)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Write(&b, s))
	require.Contains(t, b.String(), "<tr><td>loaded</td><td>20</td><td>5 ms</td><td>5 ms</td></tr>")
	require.Contains(t, b.String(), "<td>10.99.1.0/24&#43;192.0.2.0/24 TCP on eth1 vlan 100.7</td>")
	require.Contains(t, b.String(), "<tr><td>one-direction</td><td>20</td><td>5 ms</td><td>5 ms</td></tr>")
	require.Contains(t, b.String(), "<th scope=\"col\">peers-idle</th>")
}

// Parts are drawn over time, and prefixes that have one without RTTs have a list of their own.
func TestPageOfQueriesAlone(t *testing.T) {
	dir := t.TempDir()
	w, err := history.NewWriter(dir, history.Limits{Size: 1 << 30}, nil)
	require.NoError(t, err)
	for hour := range 30 {
		at := began.Add(time.Duration(hour) * time.Hour)
		require.NoError(t, w.Interval(&report.Interval{
			Start: at, End: at.Add(time.Hour), Aggregation: new(report.Aggregation),
			Prefixes: []report.Prefix{
				{Group: "customer", RTT: histogramAround(20), PeerRTT: histogramAround(5)},
				{Group: "resolver", Queries: histogramAround(float64(2 + hour%24))},
			},
		}))
	}
	require.NoError(t, w.Close())
	text := pageOf(t, dir, "")
	require.Contains(t, text, "<h2>Worst prefixes by queries</h2>")
	_, list, _ := strings.Cut(text, "<h2>Worst prefixes by queries</h2>")
	require.Contains(t, list, "<tr><td>resolver</td><td>")
	require.Contains(t, list, "<td>3000</td><td>–</td>", "it has no RTT")
	for _, class := range []string{"part0", "part1", "part2"} {
		require.Equal(t, 4, strings.Count(text, `<path class="`+class+`" d="M`), "two charts, each with a key")
	}
	require.NotContains(t, text, "ZgotmplZ")

	text = pageOf(t, dir, "resolver")
	require.Contains(t, text, "<div><dt>median</dt><dd>–</dd></div>")
	require.Contains(t, text, "<h2>Worst prefixes by queries</h2>")
	for _, not := range []string{
		"<h2>Over time</h2>", "<h2>By the hour</h2>", "<h2>Worst prefixes</h2>", "NaN", "Inf",
	} {
		require.NotContains(t, text, not)
	}
}

func pageOf(t *testing.T, dir, prefix string) string {
	t.Helper()
	s, err := history.Summarize(dir, history.Query{To: began.AddDate(1, 0, 0), Prefix: prefix}, 10)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Write(&b, s))
	return b.String()
}

// The hours of a prefix have colours between its least and its largest percentile.
func TestTiles(t *testing.T) {
	list := []history.Series{
		{Prefix: "slow", Hours: []history.Hours{
			{0: 10 * time.Millisecond, 23: 40 * time.Millisecond}, {1: 20 * time.Millisecond},
		}},
		{Prefix: "even", Hours: []history.Hours{{5: time.Millisecond}}},
		{Prefix: "nothing"},
	}
	all := newTiles(list)
	require.Len(t, all, 2)
	require.Equal(t, tiles{
		Prefix: "slow", Width: 192, Height: 16, Low: 10 * time.Millisecond, High: 40 * time.Millisecond,
		Paths: [tileLevels]string{0: "M0 0h7v7h-7z", 3: "M8 8h7v7h-7z", 6: "M184 0h7v7h-7z"},
	}, all[0])
	require.Equal(t, "M40 0h7v7h-7z", all[1].Paths[0])
	require.Len(t, newTiles(slices.Repeat(list[:1], 100)), maxTiles)
}

// Of many changes of a prefix, the first are written out.
func TestManyChanges(t *testing.T) {
	dir := t.TempDir()
	w, err := history.NewWriter(dir, history.Limits{Size: 1 << 30}, nil)
	require.NoError(t, err)
	for hour := range 8 * 12 {
		at := began.Add(time.Duration(hour) * time.Hour)
		require.NoError(t, w.Interval(&report.Interval{
			Start: at, End: at.Add(time.Hour), Aggregation: new(report.Aggregation),
			Prefixes: []report.Prefix{{Group: "customer", RTT: histogramAround(10 + 40*float64(hour/12%2))}},
		}))
	}
	require.NoError(t, w.Close())
	text := pageOf(t, dir, "")
	_, list, _ := strings.Cut(text, "<h2>Worst prefixes</h2>")
	list, _, _ = strings.Cut(list, "<h2>")
	require.Equal(t, maxChanges, strings.Count(list, " ms to "))
	require.Contains(t, list, "<br>and 3 more</td>")
}
