package bpftest

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
)

// Versions is the loaded program that reads a track while user space replaces it.
type Versions struct{ VersionsObjects }

// NewVersions loads it.
func NewVersions(t testing.TB) *Versions {
	t.Helper()
	k := new(Versions)
	load(t, LoadVersions, &k.VersionsObjects)
	return k
}

// Look runs the program, and returns in how many runs so far it has found the track, and in how many of these a
// mixture of two values.
func (k *Versions) Look(t testing.TB) (found, mixtures uint64) {
	t.Helper()
	_, err := k.TestVersion.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 50})
	require.NoError(t, err)
	require.NoError(t, k.Found.Get(&found))
	require.NoError(t, k.Mixtures.Get(&mixtures))
	return found, mixtures
}
