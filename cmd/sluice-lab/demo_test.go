package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
)

func TestSource(t *testing.T) {
	parts, err := clitest.CutClip(time.Second)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "clip.mp4")
	require.NoError(t, os.WriteFile(path, slices.Concat(parts...), 0o600))
	want, err := openSource(path)
	require.NoError(t, err)
	require.Equal(t, len(parts)-1, want.count)
	require.WithinDuration(t, time.Unix(1, 0), time.Unix(0, int64(want.duration)), 50*time.Millisecond)
	require.NoError(t, os.WriteFile(path, slices.Concat(slices.Concat(parts[:40]...), parts[40][:20]), 0o600))
	_, err = openSource(path)
	require.ErrorContains(t, err, "unexpected EOF")
}

// TestStartProcessTooLate has a relay that ended before a subscriber was started: the demo says that.
func TestStartProcessTooLate(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sluice"), nil, 0o700))
	t.Setenv("PATH", dir)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("relay: has ended")
	cancel(ended)
	_, err := startProcess(ctx, "sub1", (*exec.Cmd).Start, "sub")
	require.Equal(t, ended, err)
}
