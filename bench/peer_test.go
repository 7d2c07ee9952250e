package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with a space")
	require.NoError(t, os.Mkdir(dir, 0o755))
	t.Setenv("PATH", "")
	for _, name := range PeerNames() {
		_, err := Peer(name, dir)
		require.ErrorContains(t, err, "make bench-peers")
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o755))
		spec, err := Peer(name, dir)
		require.NoError(t, err)
		require.NoError(t, spec.validate())
		words, err := splitCommand(spec.Command)
		require.NoError(t, err)
		require.Equal(t, path, words[0])
		require.Equal(t, name, spec.Name)
	}
	_, err := Peer("another", dir)
	require.ErrorContains(t, err, `there is no peer "another"; there are moq-relay-ietf, moq-relay`)
}
