package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(name, []byte(" abc\n"), 0o600))
	text, before, err := Read(name, 5)
	require.NoError(t, err)
	require.Equal(t, " abc\n", string(text))
	_, _, err = Read(name, 4)
	require.ErrorContains(t, err, "larger than 4 bytes")
	secret, err := Secret(name)
	require.NoError(t, err)
	require.Equal(t, "abc", secret)

	now, err := os.Stat(name)
	require.NoError(t, err)
	require.True(t, Same(before, now))
	require.True(t, Same(nil, nil))
	require.False(t, Same(nil, now))
	require.NoError(t, os.Chtimes(name, time.Time{}, before.ModTime().Add(time.Second)))
	now, err = os.Stat(name)
	require.NoError(t, err)
	require.False(t, Same(before, now))

	require.NoError(t, os.WriteFile(name, []byte("\n"), 0o600))
	_, err = Secret(name)
	require.ErrorContains(t, err, "is empty")
	_, err = Secret(name + "2")
	require.ErrorIs(t, err, os.ErrNotExist)
}
