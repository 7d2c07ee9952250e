package pub

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/catalog"
)

// withB is a clip with B-frames, of which most are disposable.
const withB = "../loc/testdata/avc.mp4"

func TestFeedSeparatesLayers(t *testing.T) {
	chunks := Priorities{Key: 3, Delta: 4, Disposable: 5}
	for name, cfg := range map[string]PublisherConfig{
		"frames, by default": {Packaging: catalog.LOC},
		"chunks":             {Priorities: chunks},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Open, cfg.Unpaced = openFile(withB), true
			f, s := newFeed(t, cfg)
			require.NoError(t, f.run(t.Context(), s))
			var got [][]uint64
			for _, o := range allObjects(f.broadcast.media[1]) {
				got = append(got, []uint64{o.location.Group - 7, o.subgroup, uint64(o.priority)})
			}
			p := f.cfg.Priorities
			key, delta, last := uint64(p.Key), uint64(p.Delta), uint64(p.Disposable)
			k0, k1 := []uint64{0, 0, key}, []uint64{1, 0, key}
			r0, r1, d0, d1 := []uint64{0, 1, delta}, []uint64{1, 1, delta}, []uint64{0, 2, last}, []uint64{1, 2, last}
			require.Equal(t, [][]uint64{k0, r0, r0, d0, d0, r0, r0, d0, d0, r0, k1, r1, r1, d1, d1}, got)
		})
	}
}

func TestLayers(t *testing.T) {
	require.Equal(t, layers{96, 128, 160}, around(128))
	require.Equal(t, layers{0, 10, 42}, around(10))
	require.Equal(t, layers{218, 250, 255}, around(250))

	type place struct {
		subgroup uint64
		priority uint8
	}
	for _, tt := range []struct {
		layers                 layers
		key, delta, disposable place
		keyAlone               bool
		reference              uint64
	}{
		{single(7), place{0, 7}, place{0, 7}, place{0, 7}, false, 0},
		{layers{1, 2, 2}, place{0, 1}, place{1, 2}, place{1, 2}, true, 1},
		{layers{1, 1, 2}, place{0, 1}, place{0, 1}, place{1, 2}, false, 0},
		{layers{1, 2, 3}, place{0, 1}, place{1, 2}, place{2, 3}, true, 1},
	} {
		of := func(starts, disposable bool) (p place) {
			p.subgroup, p.priority = tt.layers.of(starts, disposable)
			return p
		}
		require.Equal(t, tt.key, of(true, false), tt.layers)
		require.Equal(t, tt.delta, of(false, false), tt.layers)
		require.Equal(t, tt.disposable, of(false, true), tt.layers)
		require.Equal(t, tt.keyAlone, tt.layers.keyAlone())
		require.Equal(t, tt.reference, tt.layers.reference())
	}
}

// Each layer has a stream, and the stream of the frames that others depend on marks the end of the group.
func TestPublisherSendsLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := (&peer{}).start(t, PublisherConfig{Packaging: catalog.LOC, Open: openFile(withB)})
		s, r, err := p.subscribe("1.loc", moqt.Parameters{})
		require.NoError(t, err)
		<-s.Context().Done()
		require.Len(t, r.headers, 6, "two groups of three")
		for l, h := range r.headers {
			require.True(t, h.HasProperties && h.FirstObject && !h.EndOfGroup, "%v: %+v", l, h)
		}
		require.Equal(t, map[moqt.Location]uint64{{Object: 10}: 1, {Group: 1, Object: 5}: 1}, r.ends)
	})
}
