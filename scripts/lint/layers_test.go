package main

import (
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLayers compares the table of shared parts in docs/protocols.md with what scripts/layers counts. The page rounds,
// so that it stays true while lines come and go: a tenth more or less, or ten lines, is the same.
func TestLayers(t *testing.T) {
	counted, err := exec.Command("../../scripts/layers").Output()
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/protocols.md")
	require.NoError(t, err)
	_, told, found := strings.Cut(string(page), "## What both share\n")
	require.True(t, found)
	told, _, found = strings.Cut(told, "    scripts/layers\n")
	require.True(t, found)
	_, told, found = strings.Cut(told, "\n\n|")
	require.True(t, found)
	is, says := numbersOf(string(counted)), numbersOf(told)
	require.GreaterOrEqual(t, len(is), 7)
	require.Len(t, says, len(is), "docs/protocols.md has other rows than scripts/layers")
	for row, numbers := range is {
		require.Len(t, says[row], len(numbers), "docs/protocols.md has no such row: %s", row)
		for i, n := range numbers {
			assert.InDelta(t, n, says[row][i], math.Max(10, n/10), "docs/protocols.md: %s, number %d", row, i+1)
		}
	}
}

var number = regexp.MustCompile(`\d+`)

// numbersOf returns the numbers of each line that has some, by the rest of the line.
func numbersOf(text string) map[string][]float64 {
	all := make(map[string][]float64)
	for line := range strings.Lines(text) {
		row := strings.Trim(number.ReplaceAllString(line, "N"), "| \n")
		for _, digits := range number.FindAllString(line, -1) {
			n, _ := strconv.ParseFloat(digits, 64)
			all[row] = append(all[row], n)
		}
	}
	return all
}
