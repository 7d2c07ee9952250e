package result_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
	"sluice/lab/bench/result/resulttest"
)

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	_, err := result.ReadFile(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	want := resulttest.Sample()
	require.NoError(t, want.WriteFile(path))
	got, err := result.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	runs := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, `    {"system": `) {
			runs++
			require.True(t, json.Valid([]byte(strings.TrimRight(line, ",\n"))), "a line has a whole run or summary")
		}
	}
	require.Equal(t, runsAndSummaries(want), runs)
	for says, content := range map[string]string{
		"unexpected end of JSON input":           string(b[:len(b)/2]),
		"its format is 0, this program reads 1":  "{}",
		"invalid character":                      "hello",
		"its format is 99, this program reads 1": strings.Replace(string(b), `"format": 1`, `"format": 99`, 1),
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := result.ReadFile(path)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, path)
	}
}

func runsAndSummaries(r result.Report) (n int) {
	for _, s := range r.Scenarios {
		n += len(s.Runs) + len(s.Summaries)
	}
	return n
}

func TestValidate(t *testing.T) {
	with := func(s result.Scenario) result.Report {
		s.Name = "x"
		return result.Report{Systems: []result.System{{Name: "a"}}, Scenarios: []result.Scenario{s}}
	}
	distribution := func(at, value []float64) map[string]result.Distribution {
		return map[string]result.Distribution{"d": {At: at, Value: value}}
	}
	run := func(r result.Run) result.Report { return with(result.Scenario{Runs: []result.Run{r}}) }
	summary := func(s result.Summary) result.Report { return with(result.Scenario{Summaries: []result.Summary{s}}) }
	series := map[string]result.Series{"s": {Time: []float64{1}}}
	one, falling, two := []float64{1}, []float64{1, 0}, []float64{1, 2}
	for says, r := range map[string]result.Report{
		`system "a": a name must be unique`:                {Systems: []result.System{{Name: "a"}, {Name: "a"}}},
		`scenario "": a name must be unique and not empty`: {Scenarios: []result.Scenario{{}}},
		`a run of "b", which is not among the systems`:     run(result.Run{System: "b"}),
		`a summary of "b", which is not among the systems`: summary(result.Summary{System: "b"}),
		`series "s" has 1 times for 0 values`:              run(result.Run{System: "a", Series: series}),
		`1 fractions for 0 values`: run(result.Run{System: "a",
			Distributions: distribution(one, nil)}),
		`distribution "d": not sorted`: summary(result.Summary{System: "a",
			Distributions: distribution(falling, two)}),
	} {
		require.ErrorContains(t, r.Validate(), says)
	}
}
