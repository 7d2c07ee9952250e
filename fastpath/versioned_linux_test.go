package fastpath

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
)

// versionedTracks returns the map that the program reads.
func versionedTracks(t *testing.T, k *bpftest.Versions) *versioned[bpf.Track] {
	v := newVersioned[bpf.Track](k.Tracks, awaitGracePeriod)
	var arrays []*growing
	require.NoError(t, keepGrowing(k.TrackVersions, &arrays, &v.current))
	require.NoError(t, growAll(arrays, 1))
	t.Cleanup(func() { require.NoError(t, arrays[0].close()) })
	return v
}

// uniform is a track of two parts, whose first and last words are the same.
func uniform(word uint64) []bpf.Track {
	last := bpf.Track{Alias: word}
	last.Subscriptions[partLen-1].EndGroup = word
	return []bpf.Track{{Alias: word}, last}
}

// TestReplacedValues replaces a track again and again, and other tracks, while a program reads it: the program sees one
// value or another, never a mixture.
func TestReplacedValues(t *testing.T) {
	const replacements = 20_000
	k := bpftest.NewVersions(t)
	v := versionedTracks(t, k)
	require.NoError(t, v.put(0, uniform(1)...))
	replaced := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		defer close(replaced)
		for i := range uint64(replacements) {
			if err := v.put(uint32(i%3), uniform(i)...); err != nil {
				t.Error(err)
				return
			}
			if i%1000 == 0 {
				old := v.takeOld()
				awaitGracePeriod()
				if err := v.free(old); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for over := false; !over; {
		select {
		case <-replaced:
			over = true
		default:
		}
		_, mixtures := k.Look(t)
		require.Zero(t, mixtures)
	}
	found, _ := k.Look(t)
	require.NotZero(t, found)
}

// TestManyReplacements replaces a value more often than the map has room for.
func TestManyReplacements(t *testing.T) {
	k := bpftest.NewVersions(t)
	v := versionedTracks(t, k)
	n := uint64(k.Tracks.MaxEntries()) + 100
	for i := range n {
		require.NoError(t, v.put(5, uniform(i)...))
	}
	got, err := v.get(5)
	require.NoError(t, err)
	require.Equal(t, uniform(n - 1)[0], got)
	v.remove(5)
	v.remove(5)
	require.NoError(t, v.free(v.takeOld()))
	_, err = v.get(5)
	require.Error(t, err)
	require.Zero(t, elements(k))
}

func elements(k *bpftest.Versions) int {
	return len(keysOf(k.Tracks, func(*bpf.VersionKey, *bpf.Track) bool { return true }))
}

// TestFullVersions expects a value to stay as it is when there is no room for all parts of the next one.
func TestFullVersions(t *testing.T) {
	k := bpftest.NewVersions(t)
	v := versionedTracks(t, k)
	require.NoError(t, v.put(0, uniform(1)...))
	n := int(k.Tracks.MaxEntries()) - 3
	require.NoError(t, v.put(1, make([]bpf.Track, n)...))
	require.ErrorIs(t, v.put(0, uniform(2)...), unix.E2BIG)
	require.Equal(t, 2+n, elements(k), "no part of the new value is left")
	got, err := v.get(0)
	require.NoError(t, err)
	require.Equal(t, uniform(1)[0], got)
	v.remove(1)
	require.NoError(t, v.put(0, uniform(2)...), "after a grace period")
}
