package main

import (
	"os"
	"os/exec"
	"regexp"
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
