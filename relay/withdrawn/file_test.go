package withdrawn

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var quiet = slog.New(slog.DiscardHandler)

// TestFile keeps withdrawn tokens over a restart, and tells another process of them.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "withdrawn")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		start := func() *List {
			l := New(func() {})
			f, err := Keep(l, name, quiet)
			require.NoError(t, err)
			go f.Run(ctx)
			return l
		}
		old := start()
		_, err := os.Stat(name)
		require.ErrorIs(t, err, os.ErrNotExist, "there is nothing to keep")
		_, err = old.Withdraw("alice", time.Hour)
		require.NoError(t, err)
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

		successor := start()
		require.True(t, successor.Has("alice"))
		_, err = successor.Withdraw("bob", time.Hour)
		require.NoError(t, err)
		_, err = successor.Restore("alice")
		require.NoError(t, err)
		now := time.Now().UTC()
		require.NoError(t, old.Merge([]Entry{{Subject: "carol", Set: now, Until: now.Add(time.Hour)}}))
		time.Sleep(2 * lookInterval)
		synctest.Wait()
		require.Equal(t, successor.All(), old.All())
		require.Len(t, old.All(), 3)

		require.NoError(t, os.Remove(name))
		time.Sleep(2 * lookInterval)
		synctest.Wait()
		require.Equal(t, old.All(), start().All())
	})
}

// TestFileIsWrong starts with files that no relay has written.
func TestFileIsWrong(t *testing.T) {
	name := filepath.Join(t.TempDir(), "withdrawn")
	_, err := Keep(New(func() {}), filepath.Join(name, "none"), quiet)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing can be written there")
	for text, want := range map[string]string{
		"alice\n": "not a list of withdrawn tokens",
		"":        "not a list of withdrawn tokens",
		`[{"subject":"alice","set":"2000-01-01T00:00:00Z","until":"2100-01-01T00:00:00Z"}]`: "time of withdrawal",
		`[{"set":"2000-01-01T00:00:00Z","until":"2000-01-02T00:00:00Z"}]`:                   "length of subject",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := Keep(New(func() {}), name, quiet)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "correct or remove it")
		left, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, text, string(left))
	}
}
