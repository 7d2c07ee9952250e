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
)

// TestDuckDB asks DuckDB what docs/rtt.md shows, of a history. What it says of each prefix is what the rows add up to.
func TestDuckDB(t *testing.T) {
	program := client(t, "duckdb")
	needsKernel(t)
	dir := t.TempDir()
	start(t, nil, nil, "sluice-rtt", "--pcap", writeTraffic(t), "--all", "--rate-limit", "0", "--aggregate", "5",
		"--aggregate-subnets-v4", "16", "--aggregate-subnets-v6", "44", "--history", dir,
		"--write", os.DevNull).wait(t, 2*time.Minute)
	totals, err := history.Total(dir, history.Query{To: time.Now().AddDate(1, 0, 0)})
	require.NoError(t, err)
	require.Greater(t, len(totals.Prefixes), 10)

	setup, queries := documentedQueries(t, dir)
	require.Len(t, queries, 4)
	for _, query := range queries {
		answers := ask(t, program, setup+query)
		if !strings.Contains(query, "p95 DESC") {
			continue
		}
		for i := range totals.Prefixes {
			requireTotals(t, &totals.Prefixes[i], answers)
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

// requireTotals compares what DuckDB says with the sums of a prefix, which has 20 RTTs or more.
func requireTotals(t *testing.T, want *history.Series, answers map[string]answer) {
	t.Helper()
	// middle is by how much the middle of a bin is off where the sums know the largest RTT of the bin.
	const middle = 0.016
	got := answers[want.Prefix]
	require.Equal(t, want.RTT.Count, got.RTTs, want.Prefix)
	for q, ms := range map[float64]float64{0.5: got.P50, 0.95: got.P95} {
		wantMs := want.RTT.Quantile(q).Seconds() * 1e3
		require.InDelta(t, wantMs, ms, middle*wantMs+0.005, want.Prefix)
	}
}
