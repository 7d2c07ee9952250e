package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
)

// TestResults checks that the results in docs are of commits that this one comes from. It needs the history.
func TestResults(t *testing.T) {
	thorough.Only(t)
	require.NoError(t, os.Chdir("../.."))
	defer func() { require.NoError(t, os.Chdir("scripts/lint")) }()
	files, err := exec.Command("git", "ls-files", "docs/results/*.json").Output()
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range strings.Fields(string(files)) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var result struct{ Commit string }
		require.NoError(t, json.Unmarshal(text, &result), file)
		out, err := exec.Command("git", "merge-base", "--is-ancestor", result.Commit, "HEAD").CombinedOutput()
		assert.NoError(t, err, "%s: commit %q: %s", file, result.Commit, out)
	}
}
