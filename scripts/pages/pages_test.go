package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/lab/bench/result"
	"sluice/lab/bench/result/resulttest"
)

// TestPages checks the pages of this repository. Only make check looks at commits, because that needs the history.
func TestPages(t *testing.T) {
	t.Chdir("../..")
	d, err := read()
	require.NoError(t, err)
	require.NotEmpty(t, d)
	require.Empty(t, check(d, false))
	if thorough.Set() {
		problems, _ := history(d)
		require.Empty(t, problems)
	}
}

const page = `<!--=
| 1 | {{cells "delay/1" "delay.p50 / delay.p99"}} |
| 10 | {{spread "delay/10" "delay.p50"}}; {{atMost (v "delay/10" "delay.p50") 1}} |
--><!--/-->

It serves <!--= v "capacity" "capacity" -->0<!--/-->, <!--= times "capacity" "capacity" -->0<!--/--> of the best peer.

<!-- by hand: COMMIT, 2026-01-02, go test -bench . -->
A packet takes 4 µs.
<!--/-->

![delay](docs/results/plots/delay-delay-p99.svg)
`

func write(t *testing.T, path, text string) {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// repository makes a repository with results of its first commit, and a page of theirs, in the working directory.
func repository(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, exec.Command("sh", "-c", `mkdir -p relay docs/results && seq 100 >relay/relay.go &&
		git init -q && git config user.name x && git config user.email x && git add . && git commit -qm x`).Run())
	commit, err := git("rev-parse", "HEAD")
	require.NoError(t, err)
	r := resulttest.Sample()
	r.Commit = strings.TrimSpace(commit)
	require.NoError(t, r.WriteFile("docs/results/results.json"))
	write(t, "README.md", strings.ReplaceAll(page, "COMMIT", r.Commit))
	d, err := read()
	require.NoError(t, err)
	require.Empty(t, check(d, true))
}

// problems returns what is wrong with the repository in the working directory.
func problems(t *testing.T) string {
	d, err := read()
	require.NoError(t, err)
	old, note := history(d)
	require.Contains(t, note, "newer than")
	return strings.Join(append(check(d, false), old...), "\n")
}

func TestWrites(t *testing.T) {
	repository(t)
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, wants := range []string{"| 1 | **0.20 / 3** | 0.40 / 6 |\n", "| 10 | 2 (1.5–2.2); 2, missed |\n<",
		"-->80<!--/-->,", "-->0.40<!--/--> of"} {
		require.Contains(t, string(text), wants)
	}
	require.Contains(t, handmade(), "` | 2026-01-02 | `go test -bench .` |")
	require.NoError(t, exec.Command("sh", "-c", "mkdir media && mv relay/relay.go media && git add .").Run())
	require.Empty(t, problems(t), "code that was moved is not new")
	require.NoError(t, os.RemoveAll(".git"))
	d, err := read()
	require.NoError(t, err)
	old, note := history(d)
	require.Empty(t, old)
	require.Contains(t, note, "there is no history")
}

func TestFindings(t *testing.T) {
	for wants, script := range map[string]string{
		`README.md:5: the page has "| 1 | **0.21 / 3**`:  `sed -i 's/\*\*0.20/**0.21/' README.md`,
		"(docs/results/plots/delay-delay-p99.svg) leads": "rm docs/results/plots/delay-delay-p99.svg",
		"plots/delay-delay-p99.svg: differs from":        "echo >docs/results/plots/delay-delay-p99.svg",
		"](docs/lost.md) leads nowhere":                  "echo '[tables](docs/lost.md)' >>README.md",
		"](#lost) leads nowhere":                         "echo '[tables](#lost)' >>README.md",
		"-run Lost runs nothing":                         "echo '`go test ./relay -run Lost`' >>README.md",
		"-bench Lost runs nothing":                       "echo 'go test ./relay -run ^$ -bench Lost' >>README.md",
		`commit "0123456" is not in the history`:         `sed -i '/commit/s/: .*/: "0123456",/' docs/results/*.json`,
		`commit "1234567" is not in the history`:         "sed -i 's/by hand: [^,]*/by hand: 1234567/' README.md",
		"must be COMMIT, YYYY-MM-DD, COMMAND":            "sed -i 's/2026-01-02, //' README.md",
		`"4 µs" is outside of markers`:                   "sed -i '/by hand/d' README.md",
		`"2.5 %" is outside of markers`:                  "echo 'It loses 2.5 % of them.' >>README.md",
		"begins with a marker":                           "sed -i 's/^It serves //' README.md",
		"several results files have it": `cd docs/results
			cp results.json a.json; mv results.json b.json`,
		`x.tap: commit "0123456"`:                      "echo '# conform, 0123456' >docs/results/x.tap",
		"no results file has it":                       "sed -i 's/v .capacity./v \"city\"/' README.md",
		"tables.md: differs from docs/results/results": "echo >docs/results/tables.md",
		"33 % of the lines that it measures are newer": "seq 50 >>relay/relay.go",
		"results.json: commit": `lost=$(git commit-tree -m lost HEAD^{tree}) &&
			sed -i "/commit/s/: .*/: \"$lost\",/" docs/results/*.json`,
	} {
		t.Run(wants, func(t *testing.T) {
			repository(t)
			require.NoError(t, exec.Command("sh", "-c", script).Run())
			require.Contains(t, problems(t), wants)
		})
	}
}

func TestFigure(t *testing.T) {
	for f, wants := range map[figure]string{0: "0", 0.0449: "0.045", 0.3: "0.30", 7: "7", 9.96: "10", 14.4: "14",
		1273.6: "1,274", -2.55: "-2.5", -1234567.8: "-1,234,568"} {
		require.Equal(t, wants, f.String())
	}
}

// TestGoal: a number that is rounded to its goal has more digits, so that a reader sees that it misses.
func TestGoal(t *testing.T) {
	for f, want := range map[figure]string{
		95: "**95**, reached", 95.4: "**95**, reached",
		94.6: "94.6, missed", 94.96: "94.96, missed", 94.4: "94, missed",
	} {
		require.Equal(t, want, f.goal(95, f >= 95))
	}
	require.Equal(t, "0.303, missed", figure(0.303).goal(0.3, false))
}

func TestAccept(t *testing.T) {
	t.Chdir(t.TempDir())
	r := resulttest.Sample()
	try := func() error {
		require.NoError(t, r.WriteFile("from.json"))
		return accept("from.json", "abc1234", "kept/to.json")
	}
	require.ErrorContains(t, try(), "disturbed: delay/1: the load generator was the bottleneck")
	for i := range r.Scenarios {
		r.Scenarios[i].Runs = []result.Run{{System: "sluice"}}
	}
	require.NoFileExists(t, "kept/to.json")
	require.NoError(t, try())
	require.FileExists(t, "kept/to.json")
	r.Machine.Steal = 0.021
	require.ErrorContains(t, try(), "disturbed: the hypervisor gave 2.1 %")
	r.Machine.Steal = 0
	r.Scenarios[0].Summaries[0].Metrics["others"] = result.Statistic{Max: 25}
	require.ErrorContains(t, try(), "disturbed: delay/1: unrelated processes used up to 25%")
	r.Scenarios[0].Runs[0].Metrics = map[string]float64{"lost": 489}
	require.ErrorContains(t, try(), "delay/1: 489 objects did not arrive with sluice")
	r.Commit = "abc1234-dirty"
	require.ErrorContains(t, try(), "must be abc1234")
}
