package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindSluice(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	_, err := findSluice()
	require.ErrorContains(t, err, "the program sluice is neither at ")
	require.ErrorContains(t, err, "nor in PATH: run 'make build'")
	want := filepath.Join(dir, "sluice")
	require.NoError(t, os.WriteFile(want, nil, 0o755))
	got, err := findSluice()
	require.NoError(t, err)
	require.Equal(t, want, got)
}
