package system

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
		require.NoError(t, spec.Validate())
		words, err := spec.Words(Place{RTSP: true})
		require.NoError(t, err)
		require.Equal(t, path, words[0])
		require.Equal(t, name, spec.Name)
		require.Empty(t, spec.Version, "an empty file says nothing")
	}
	_, err := Peer("another", dir)
	require.ErrorContains(t, err, `there is no peer "another": choose from moq-relay-ietf, moq-relay, mediamtx`)
}

// Peers are measured with their best settings.
func TestPeerSettings(t *testing.T) {
	i := slices.IndexFunc(peers, func(p Spec) bool { return p.Name == "moq-relay" })
	words, err := peers[i].Words(Place{})
	require.NoError(t, err)
	at := slices.Index(words, "--runtime-workers")
	require.Positive(t, at)
	require.Equal(t, strconv.Itoa(runtime.NumCPU()), words[at+1], "a worker for each core")
}

func TestProgramVersion(t *testing.T) {
	const installed = `[v1]
"moq-relay 0.17.10 (registry+https://github.com/rust-lang/crates.io-index)" = ["moq-relay"]
"moq-relay-ietf 0.8.0 (registry+https://github.com/rust-lang/crates.io-index)" = ["moq-other", "moq-relay-ietf"]
`
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".crates.toml"), []byte(installed), 0o644))
	for name, c := range map[string]struct{ script, want string }{
		"moq-relay":      {"echo moq-relay 0.17.11; echo more", "moq-relay 0.17.11"},
		"moq-relay-ietf": {"echo what? >&2; exit 2", "moq-relay-ietf 0.8.0"},
		"relay":          {"exit 2", ""},
	} {
		path := filepath.Join(dir, "bin", name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
		require.Equal(t, c.want, programVersion(path), name)
	}
}
