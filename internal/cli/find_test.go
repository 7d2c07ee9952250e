package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	_, err := FindProgram("sluice")
	require.ErrorContains(t, err, "the program sluice is neither at ")
	require.ErrorContains(t, err, "nor in PATH: install it, or run 'make build'")
	want := filepath.Join(dir, "sluice")
	require.NoError(t, os.WriteFile(want, nil, 0o755))
	got, err := FindProgram("sluice")
	require.NoError(t, err)
	require.Equal(t, want, got)
}
