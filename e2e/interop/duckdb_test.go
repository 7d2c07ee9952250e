package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/history"
	"sluice/rtt/report"
)

// TestDuckDB asks DuckDB what docs/rtt.md shows, of a history. What it says of each prefix is what the rows add up to.
func TestDuckDB(t *testing.T) {
	program := client(t, "duckdb")
	needsKernel(t)
	dir := t.TempDir()
	start(t, nil, nil, "sluice-rtt", "--pcap", writeTraffic(t), "--all", "--rate-limit", "0", "--aggregate", "5",
		"--aggregate-subnets-v4", "16", "--aggregate-subnets-v6", "44", "--history", dir,
		"--write", os.DevNull).wait(t, 2*time.Minute)
	totals := sumHistory(t, dir)
	require.Greater(t, len(totals), 10)

	setup, queries := documentedQueries(t, dir)
	require.Len(t, queries, 4)
	for _, query := range queries {
		answers := ask(t, program, setup+query)
		if !strings.Contains(query, "p95 DESC") {
			continue
		}
		for prefix, want := range totals {
			if want.Count >= 20 { // others are not in the answer
				requireTotals(t, prefix, want, answers)
			}
		}
	}
}

var statement = regexp.MustCompile(`(?ms)^ {4}(SET|CREATE|SELECT|WITH) .*?;$`)

// documentedQueries returns the queries of docs/rtt.md, for all prefixes of another directory, and what is to be run
// before each.
func documentedQueries(t *testing.T, dir string) (setup string, queries []string) {
	text, err := os.ReadFile("../../docs/rtt.md")
	require.NoError(t, err)
	limit := regexp.MustCompile(` LIMIT \d+;$`)
	for _, m := range statement.FindAllStringSubmatch(string(text), -1) {
		query := strings.ReplaceAll(m[0], "'/var/lib/sluice-rtt/", "'"+dir+"/")
		if m[1] == "SET" || m[1] == "CREATE" {
			setup += query + "\n"
		} else {
			queries = append(queries, limit.ReplaceAllString(query, ";"))
		}
	}
	return setup, queries
}

type answer struct {
	Prefix string
	RTTs   uint64
	P50    float64
	P95    float64
}

// ask returns the rows of an answer, by prefix. None are printed as nothing.
func ask(t *testing.T, program, query string) map[string]answer {
	out, err := exec.Command(program, "-json", "-c", query).CombinedOutput()
	require.NoError(t, err, string(out))
	var rows []answer
	if len(out) > 0 {
		require.NoError(t, json.Unmarshal(out, &rows), string(out))
	}
	all := make(map[string]answer)
	for _, row := range rows {
		all[row.Prefix] = row
	}
	return all
}

// sumHistory returns the RTTs of each prefix of a history.
func sumHistory(t *testing.T, dir string) map[string]*report.Histogram {
	totals := make(map[string]*report.Histogram)
	require.NoError(t, history.Read(dir, time.Time{}, time.Now().AddDate(1, 0, 0), func(r *history.Row) error {
		if r.RTTs == 0 {
			return nil
		}
		if totals[r.Prefix] == nil {
			totals[r.Prefix] = new(report.Histogram)
		}
		totals[r.Prefix].Add(&report.Histogram{
			Count: r.RTTs, Min: time.Duration(r.Min), Max: time.Duration(r.Max), Sum: time.Duration(r.Sum),
			Width: time.Duration(r.Width), Bins: append(make([]uint64, r.First), r.Counts...),
		})
		return nil
	}))
	return totals
}

// requireTotals compares what DuckDB says with the sums of a prefix.
func requireTotals(t *testing.T, prefix string, want *report.Histogram, answers map[string]answer) {
	t.Helper()
	// middle is by how much the middle of a bin is off where the sums know the largest RTT of the bin.
	const middle = 0.016
	got := answers[prefix]
	require.Equal(t, want.Count, got.RTTs, prefix)
	for q, ms := range map[float64]float64{0.5: got.P50, 0.95: got.P95} {
		wantMs := want.Quantile(q).Seconds() * 1e3
		require.InDelta(t, wantMs, ms, middle*wantMs+0.005, prefix)
	}
}
