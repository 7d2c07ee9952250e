package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
)

func init() {
	scriptCommands["page"] = page
	scriptCommands["gocaches"] = goCaches
}

// goCaches gives the go commands of a script the caches of those outside: otherwise they compile all libraries.
func goCaches(ts *testscript.TestScript, _ bool, _ []string) {
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOFLAGS", "CGO_ENABLED").Output()
	ts.Check(err)
	var settings map[string]string
	ts.Check(json.Unmarshal(out, &settings))
	for name, value := range settings {
		ts.Setenv(name, value)
	}
}

// page is "page NAME COMMAND [OLD NEW]...": it sets a variable to a command of docs/start.md, with replacements for
// what cannot be here.
func page(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 || len(args)%2 != 0 {
		ts.Fatalf("usage: page NAME COMMAND [OLD NEW]...")
	}
	commands, err := pageCommands()
	ts.Check(err)
	command := args[1]
	if !slices.Contains(commands, command) {
		ts.Fatalf("docs/start.md has no command %q", command)
	}
	for twin := range slices.Chunk(args[2:], 2) {
		if !strings.Contains(command, twin[0]) {
			ts.Fatalf("%q is not in %q", twin[0], command)
		}
		command = strings.ReplaceAll(command, twin[0], twin[1])
	}
	ts.Setenv(args[0], command)
}

// pageCommands returns the lines of code in docs/start.md.
func pageCommands() (commands []string, err error) {
	text, err := os.ReadFile(clitest.Path("docs/start.md"))
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands, err
}

// TestStart checks that scripts run each command of docs/start.md, once.
func TestStart(t *testing.T) {
	want, err := pageCommands()
	require.NoError(t, err)
	files, err := filepath.Glob("testdata/start_*.txtar")
	require.NoError(t, err)
	taken := regexp.MustCompile(`(?m)^page ([A-Z]+) '((?:[^']|'')+)'`)
	var got []string
	for _, file := range files {
		script, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range taken.FindAllStringSubmatch(string(script), -1) {
			require.Regexp(t, `(-c ('exec ')?|eval ")\$`+m[1]+`\b`, string(script), file)
			got = append(got, strings.ReplaceAll(m[2], "''", "'"))
		}
	}
	require.ElementsMatch(t, want, got)
}
