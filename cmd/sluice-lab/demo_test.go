package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
)

func TestCheckerFindsEveryDifference(t *testing.T) {
	parts, err := clitest.CutClip(time.Second)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "clip.mp4")
	require.NoError(t, os.WriteFile(path, slices.Concat(parts...), 0o600))
	want, err := openSource(path)
	require.NoError(t, err)
	require.Equal(t, len(parts)-1, want.count)
	require.WithinDuration(t, time.Unix(1, 0), time.Unix(0, int64(want.duration)), 50*time.Millisecond)

	changed := slices.Clone(parts)
	changed[30] = bytes.Clone(changed[30])
	changed[30][len(changed[30])-1] ^= 1
	// The sample clip begins with two chunks of different tracks: their order is no difference.
	merged := slices.Clone(parts)
	merged[1], merged[2] = merged[2], merged[1]
	for name, c := range map[string]struct {
		parts [][]byte
		err   string // "" if all is well
	}{
		"the same":         {parts, ""},
		"merged otherwise": {merged, ""},
		"nothing":          {nil, "no moov box"},
		"only init":        {parts[:1], "0 of 72 chunks have arrived"},
		"the last missing": {parts[:len(parts)-1], "71 of 72 chunks have arrived"},
		"the first":        {slices.Delete(slices.Clone(parts), 1, 2), "chunk 0 of track 1 differs from the source"},
		"one in between":   {slices.Delete(slices.Clone(parts), 30, 31), "differs from the source"},
		"one twice":        {slices.Insert(slices.Clone(parts), 30, parts[30]), "differs from the source"},
		"one too many":     {append(slices.Clone(parts), parts[len(parts)-1]), "differs from the source"},
		"a bit changed":    {changed, "differs from the source"},
		"cut off":          {append(slices.Clone(parts[:40]), parts[40][:20]), "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			checker := newChecker(want)
			for _, part := range c.parts {
				n, err := checker.in.Write(part)
				require.NoError(t, err)
				require.Equal(t, len(part), n)
			}
			require.NoError(t, checker.in.Close())
			<-checker.done
			got := checker.status()
			if c.err != "" {
				require.ErrorContains(t, got.err, c.err)
				return
			}
			require.NoError(t, got.err)
			require.Equal(t, want.count, got.objects)
			require.Equal(t, want.bytes, got.bytes)
		})
	}
}

func TestLineLog(t *testing.T) {
	l := newLineLog()
	line, changed := l.find("two")
	require.Empty(t, line)
	io.WriteString(l, "one\ntw")
	<-changed
	_, changed = l.find("two")
	io.WriteString(l, "o\nthree\n")
	<-changed
	line, _ = l.find("two")
	require.Equal(t, "two", line)
	require.Equal(t, "  one\n  two\n  three", l.tail())
	for range 2 * keptLines {
		io.WriteString(l, "more\n")
	}
	line, _ = l.find("two")
	require.Empty(t, line)
	require.Len(t, l.lines, keptLines)
}

func TestProcessErrors(t *testing.T) {
	start := func(script string) func(*exec.Cmd) error {
		return func(cmd *exec.Cmd) error {
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
			return cmd.Start()
		}
	}
	ctx := t.Context()
	p, err := startProcess(ctx, "relay", nil, start("echo ready >&2; sleep 0.2; echo no luck; exit 3"))
	require.NoError(t, err)
	line, err := p.await(ctx, "ready")
	require.NoError(t, err)
	require.Equal(t, "ready", line)
	require.EqualError(t, p.wait(ctx), "relay: exit status 3\n  ready\n  no luck")
	_, err = p.await(ctx, "never")
	require.Equal(t, p.err, err)
	p, err = startProcess(ctx, "relay", nil, start("echo done"))
	require.NoError(t, err)
	require.NoError(t, p.wait(ctx))
	_, err = p.await(ctx, "never")
	require.EqualError(t, err, "relay: ended before it printed \"never\"\n  done")

	_, err = startProcess(ctx, "relay", nil, func(*exec.Cmd) error { return errors.New("no such host") })
	require.EqualError(t, err, "start relay: no such host")

	ended, end := context.WithCancel(ctx)
	p, err = startProcess(ended, "sub1", nil, start("echo ready; while :; do sleep 0.01; done"))
	require.NoError(t, err)
	_, err = p.await(ctx, "ready")
	require.NoError(t, err)
	end()
	require.ErrorIs(t, p.wait(ended), context.Canceled)
	<-p.done
	require.ErrorContains(t, p.err, "signal: terminated")
}
