package main

import (
	"bytes"
	"os"
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
