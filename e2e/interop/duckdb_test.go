package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDuckDB asks DuckDB what docs/rtt.md shows, of a history. It says what the page of sluice rtt report says.
func TestDuckDB(t *testing.T) {
	program := client(t, "duckdb")
	needsKernel(t)
	dir := t.TempDir()
	start(t, nil, nil, "sluice", "rtt", "--pcap", writeTraffic(t), "--all", "--rate-limit", "0", "--aggregate", "5",
		"--aggregate-subnets-v4", "16", "--aggregate-subnets-v6", "44", "--history", dir,
		"--write", os.DevNull).wait(t, 2*time.Minute)
	var page bytes.Buffer
	start(t, nil, &page, "sluice", "rtt", "report", dir, "--since", "36500d", "--worst", "1000").wait(t, time.Minute)
	want := worstPrefixes(t, page.String())
	require.Greater(t, len(want), 10)

	queries := documentedQueries(t, dir)
	require.Len(t, queries, 2)
	for _, query := range queries {
		answers := ask(t, program, query)
		for prefix, shown := range want {
			require.Contains(t, answers, prefix)
			for column, answer := range answers[prefix] {
				requireShown(t, column, answer, shown)
			}
		}
	}
}

var (
	tableRow  = regexp.MustCompile(`(?s)<tr>(.*?)</tr>`)
	tableCell = regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`)
)

// worstPrefixes returns the cells of the table of the worst prefixes, by prefix and then by the head of their column.
func worstPrefixes(t *testing.T, page string) map[string]map[string]string {
	_, table, found := strings.Cut(page, "<h2>Worst prefixes</h2>")
	require.True(t, found)
	table, _, found = strings.Cut(table, "</table>")
	require.True(t, found)
	all := make(map[string]map[string]string)
	var heads [][]string
	for n, row := range tableRow.FindAllStringSubmatch(table, -1) {
		cells := tableCell.FindAllStringSubmatch(row[1], -1)
		if n == 0 {
			heads = cells
			continue
		}
		require.Len(t, cells, len(heads))
		values := make(map[string]string)
		for i, cell := range cells {
			values[heads[i][1]] = cell[1]
		}
		all[values["prefix"]] = values
	}
	return all
}

// documentedQueries returns the queries of docs/rtt.md, for all prefixes of another directory.
func documentedQueries(t *testing.T, dir string) (all []string) {
	text, err := os.ReadFile("../../docs/rtt.md")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`duckdb -c "([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		query, limited := strings.CutSuffix(m[1], " LIMIT 10")
		require.True(t, limited)
		require.Contains(t, query, "'/var/lib/sluice-rtt/*")
		all = append(all, strings.ReplaceAll(query, "'/var/lib/sluice-rtt/", "'"+dir+"/"))
	}
	return all
}

// ask returns the rows of an answer, by prefix. A value that is missing is not there.
func ask(t *testing.T, program, query string) map[string]map[string]float64 {
	out, err := exec.Command(program, "-json", "-c", query).CombinedOutput()
	require.NoError(t, err, string(out))
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(out, &rows), string(out))
	all := make(map[string]map[string]float64)
	for _, row := range rows {
		values := make(map[string]float64)
		for column, value := range row {
			switch value := value.(type) {
			case float64:
				values[column] = value
			case string:
				if n, err := strconv.ParseFloat(value, 64); err == nil {
					values[column] = n
				}
			}
		}
		all[row["prefix"].(string)] = values
	}
	return all
}

// requireShown compares what DuckDB says with what the page shows with three digits.
func requireShown(t *testing.T, column string, answer float64, shown map[string]string) {
	t.Helper()
	const (
		digits = 0.005
		// middle is by how much the middle of a bin is off where the page knows the largest RTT of the bin.
		middle = 0.011
	)
	switch column {
	case "rtts":
		require.Equal(t, shown["RTTs"], strconv.FormatFloat(answer, 'f', -1, 64))
	case "largest_ms":
		requireNear(t, milliseconds(t, shown["largest"]), answer, digits)
	case "p50_ms":
		requireNear(t, milliseconds(t, shown["median"]), answer, digits+middle)
	case "p95_ms":
		requireNear(t, milliseconds(t, shown["95th"]), answer, digits+middle)
	case "sent_again": // in percent; the page has what the prefix sent before what it received
		sent, _, _ := strings.Cut(shown["sent again"], " / ")
		requireNear(t, quantity(t, sent, map[string]float64{"%": 1}), answer, digits)
	default:
		require.Failf(t, "no such column on the page", "%s", column)
	}
}

func requireNear(t *testing.T, want, got, share float64) {
	t.Helper()
	require.InDelta(t, want, got, share*want)
}

func milliseconds(t *testing.T, text string) float64 {
	t.Helper()
	return quantity(t, text, map[string]float64{"µs": 1e-3, "ms": 1, "s": 1e3})
}

// quantity returns a number with a unit.
func quantity(t *testing.T, text string, units map[string]float64) float64 {
	t.Helper()
	number, unit, _ := strings.Cut(text, " ")
	require.Contains(t, units, unit, text)
	n, err := strconv.ParseFloat(number, 64)
	require.NoError(t, err)
	return n * units[unit]
}
