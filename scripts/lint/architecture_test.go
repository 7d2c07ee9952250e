package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestImportsRunDownwards reads the order of the packages from the table in docs/architecture.md. A package may import
// packages of its own row and of the rows below, and each package has a row.
func TestImportsRunDownwards(t *testing.T) {
	table := readTable(t)
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "sluice/...").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from, ok := table.row(fields[0])
		assert.True(t, ok, "docs/architecture.md does not name the package %s", fields[0])
		for _, path := range fields[1:] {
			if to, ok := table.row(path); ok {
				assert.LessOrEqual(t, from, to, "%s imports %s, which stands above it", fields[0], path)
			}
		}
	}
}

// packageTable holds the row of each package in the table.
type packageTable map[string]int

var packageName = regexp.MustCompile("`([a-z0-9/_-]+)`")

func readTable(t *testing.T) packageTable {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "## Packages\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")
	all, row := make(packageTable), 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		row++
		for _, m := range packageName.FindAllStringSubmatch(cells[1], -1) {
			all[m[1]] = row
		}
	}
	require.Greater(t, len(all), 20)
	return all
}

// row returns the row of a package, or else of the nearest folder above it that has one.
func (p packageTable) row(path string) (row int, ok bool) {
	name, ok := strings.CutPrefix(path, "sluice/")
	for ok {
		if row, found := p[name]; found {
			return row, true
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			break
		}
		name = name[:i]
	}
	return 0, false
}

// TestRelayIsNotSimulated shows that the program that people run has no simulation in it.
func TestRelayIsNotSimulated(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./cmd/sluice")
	list.Dir = "../.."
	out, err := list.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "sluice/server\n")
	require.NotContains(t, string(out), "sluice/lab/sim")
}

// TestWalks checks that the walks in docs/architecture.md name functions of the files that they name, and as many files
// as they say. A step begins with a file. Each function is in the file that the step has named last.
func TestWalks(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, walks, _ := strings.Cut(string(page), "\n## Two walks\n")
	walks, _, _ = strings.Cut(walks, "\n## ")
	parts := strings.Split(walks, "\n### ")
	require.Len(t, parts, 3)
	for _, walk := range parts[1:] {
		named := make(map[string]map[string]bool) // functions by file
		counts := filesNamed.FindAllStringSubmatchIndex(walk, -1)
		require.NotEmpty(t, counts)
		for i, at := range counts {
			steps := walk[at[1]:]
			if i+1 < len(counts) {
				steps = walk[at[1]:counts[i+1][0]]
			}
			for _, step := range walkStep.FindAllString(steps, -1) {
				checkStep(t, step, named)
			}
			assert.Equal(t, walk[at[2]:at[3]], strconv.Itoa(len(named)), "list %d of %.20q", i+1, walk)
		}
	}
}

var (
	filesNamed = regexp.MustCompile(`names (\d+) files:\n`)
	walkStep   = regexp.MustCompile(`(?m)^\d+\. .*\n(?:  .*\n)*`)
	codeSpan   = regexp.MustCompile("`([^`]+)`")
)

func checkStep(t *testing.T, step string, named map[string]map[string]bool) {
	spans := codeSpan.FindAllStringSubmatch(step, -1)
	require.NotEmpty(t, spans, step)
	require.Contains(t, spans[0][1], "/", step)
	file := ""
	for _, m := range spans {
		if !strings.Contains(m[1], "/") {
			assert.Contains(t, named[file], m[1], "%s", file)
			continue
		}
		if file = m[1]; named[file] == nil {
			named[file] = functionsOf(t, file)
		}
	}
}

// functionsOf returns the functions of a file, and its methods as Type.Method.
func functionsOf(t *testing.T, file string) map[string]bool {
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../"+file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	all := make(map[string]bool)
	for _, d := range parsed.Decls {
		switch f, ok := d.(*ast.FuncDecl); {
		case !ok:
		case f.Recv == nil:
			all[f.Name.Name] = true
		default:
			all[receiver(f.Recv.List[0].Type)+"."+f.Name.Name] = true
		}
	}
	return all
}
