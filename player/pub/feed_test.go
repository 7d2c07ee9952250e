package pub

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/cmaf"
)

const clip = "../../testdata/clip.mp4"

func openFile(path string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(path) }
}

func openBytes(b []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

// newFeed opens the input of cfg with everything needed to publish it.
func newFeed(t *testing.T, cfg PublisherConfig) (*feed, *source) {
	t.Helper()
	cfg.Namespace = moqt.Namespace{"live", "demo"}
	require.NoError(t, cfg.validate())
	cfg = cfg.withDefaults()
	s, err := openSource(&cfg)
	require.NoError(t, err)
	cfg.FirstGroup = new(uint64(7))
	b, err := newBroadcast(&cfg, s)
	require.NoError(t, err)
	return &feed{
		cfg: &cfg, init: s.init, broadcast: b, groups: newGrouper(s.init, s.alternatives(), 7), stats: &Stats{},
		log: slog.New(slog.DiscardHandler),
	}, s
}

func allObjects(tr *track) []*object {
	objects, _ := tr.fetch(moqt.Everything)
	return objects
}

func TestFeedInputs(t *testing.T) {
	whole, err := os.ReadFile(clip)
	require.NoError(t, err)
	init := len(whole) - len(media(t, whole))
	delta := whole[init+len(chunk(t, whole, 0)):]

	t.Run("cut off", func(t *testing.T) {
		f, s := newFeed(t, PublisherConfig{Open: openBytes(whole[:len(whole)-1]), Unpaced: true})
		require.NoError(t, f.run(t.Context(), s))
		require.Equal(t, uint64(719), f.stats.Objects())
	})
	t.Run("starts without a key frame", func(t *testing.T) {
		f, s := newFeed(t, PublisherConfig{Open: openBytes(append(bytes.Clone(whole[:init]), delta...)), Unpaced: true})
		require.NoError(t, f.run(t.Context(), s))
		require.Len(t, allObjects(f.broadcast.media[1]), 200)
		require.Equal(t, 49, f.waiting)
	})
	t.Run("broken", func(t *testing.T) {
		f, s := newFeed(t, PublisherConfig{Open: openBytes(append(bytes.Clone(whole), 0, 0, 0, 1)), Unpaced: true})
		require.NoError(t, f.run(t.Context(), s))
		f, s = newFeed(t, PublisherConfig{
			Open: openBytes(append(bytes.Clone(whole), 0, 0, 0, 3, 'a', 'b', 'c', 'd')), Unpaced: true,
		})
		var inputErr *InputError
		require.ErrorAs(t, f.run(t.Context(), s), &inputErr)
	})
	t.Run("nothing to loop", func(t *testing.T) {
		f, s := newFeed(t, PublisherConfig{Open: openBytes(whole[:init]), Unpaced: true, Loop: true})
		require.ErrorContains(t, f.run(t.Context(), s), "nothing to loop")
	})
	t.Run("no input", func(t *testing.T) {
		cfg := PublisherConfig{Open: openFile("missing.mp4"), Namespace: moqt.Namespace{"a"}}
		_, err := openSource(&cfg)
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

// media is what follows the init segment, and chunk its n-th chunk.
func media(t *testing.T, whole []byte) []byte {
	r := cmaf.NewReader(bytes.NewReader(whole))
	in, err := r.Init()
	require.NoError(t, err)
	return whole[len(in.Data):]
}

func chunk(t *testing.T, whole []byte, n int) []byte {
	r := cmaf.NewReader(bytes.NewReader(whole))
	for range n {
		_, err := r.Next()
		require.NoError(t, err)
	}
	c, err := r.Next()
	require.NoError(t, err)
	return c.Data
}

func TestTrackHistory(t *testing.T) {
	tr := newTrack(moqt.FullTrackName{}, 0, nil, History{Groups: 3, Bytes: 100})
	require.Nil(t, tr.largest())
	for id := uint64(1); id <= 4; id++ {
		tr.startGroup(id)
		for range 3 {
			tr.add(object{payload: make([]byte, 10)})
		}
	}
	objects, lost := tr.fetch(moqt.Everything)
	require.Equal(t, moqt.Location{Group: 2}, objects[0].location)
	require.Equal(t, &moqt.Location{Group: 1, Object: 2}, lost)
	require.Equal(t, &moqt.Location{Group: 4, Object: 2}, tr.largest())

	_, lost = tr.fetch(moqt.Range{Start: moqt.Location{Group: 2}, End: moqt.MaxLocation})
	require.Nil(t, lost)
	objects, lost = tr.fetch(moqt.Range{End: moqt.Location{Group: 1, Object: 1}})
	require.Empty(t, objects)
	require.Equal(t, &moqt.Location{Group: 1, Object: 1}, lost)

	tr.add(object{payload: make([]byte, 50)}) // over the limit of bytes
	objects, _ = tr.fetch(moqt.Everything)
	require.Equal(t, moqt.Location{Group: 4}, objects[0].location)

	groups, ended, changed := tr.after(4)
	require.Len(t, groups, 1)
	require.False(t, ended)
	tr.end()
	<-changed
	_, complete, _ := tr.read(groups[0], 0)
	require.True(t, complete)
}

// Each subscriber that asks for the content gets a group of its own.
func TestRepublishAtOnce(t *testing.T) {
	const subscribers, requests = 4, 10_000
	tr := newTrack(moqt.FullTrackName{}, 0, nil, History{Groups: subscribers * requests})
	var asked sync.WaitGroup
	for range subscribers {
		asked.Go(func() {
			for range requests {
				tr.republish(0)
			}
		})
	}
	asked.Wait()
	require.Len(t, tr.groups, subscribers*requests)
	for i, g := range tr.groups {
		require.Equal(t, []uint64{uint64(i), 1}, []uint64{g.id, g.end()})
	}
}

// TestLongGroup checks that a group without end loses its oldest objects, and nothing but these.
func TestLongGroup(t *testing.T) {
	t.Parallel()
	tr := newTrack(moqt.FullTrackName{}, 0, nil, History{Bytes: 100})
	tr.startGroup(1)
	g := tr.groups[0]
	for i := range 1000 {
		tr.add(object{payload: make([]byte, 10), subgroup: uint64(min(i, 1))})
		require.LessOrEqual(t, tr.bytes, 100)
		require.Equal(t, 10*len(g.objects), tr.bytes)
		require.Equal(t, g.bytes, tr.bytes)
		require.Equal(t, &moqt.Location{Group: 1, Object: uint64(i)}, tr.largest())
		require.Equal(t, i < 2, g.objects[len(g.objects)-1].first)
	}
	objects, lost := tr.fetch(moqt.Everything)
	first := objects[0].location
	require.Equal(t, first, lost.Next())
	require.Greater(t, len(objects), 5)
	for from, want := range map[uint64]uint64{0: first.Object, first.Object: first.Object, 998: 998} {
		objects, complete, _ := tr.read(g, from)
		require.Equal(t, want, objects[0].location.Object)
		require.Len(t, objects, int(1000-want))
		require.False(t, complete)
	}
	objects, _, _ = tr.read(g, 1000)
	require.Empty(t, objects)

	tr.add(object{payload: make([]byte, 1000)})
	objects, lost = tr.fetch(moqt.Everything)
	require.Len(t, objects, 1, "the newest is kept whatever its size")
	require.Equal(t, &moqt.Location{Group: 1, Object: 999}, lost)
	tr.startGroup(2)
	require.Zero(t, tr.bytes)
	require.Len(t, tr.groups, 1)
}

func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		start := time.Now()
		for _, step := range []struct{ at, elapsed time.Duration }{
			{time.Hour, 0}, // media time need not start at zero
			{time.Hour + 40*time.Millisecond, 40 * time.Millisecond},
			{time.Hour, 40 * time.Millisecond},     // late: at once
			{2 * time.Hour, 40 * time.Millisecond}, // a break in the timeline is not waited for
			{2*time.Hour + time.Second, 1040 * time.Millisecond},
			{time.Second, 1040 * time.Millisecond}, // nor is one backwards
			{2 * time.Second, 2040 * time.Millisecond},
		} {
			require.NoError(t, p.wait(t.Context(), step.at))
			require.Equal(t, step.elapsed, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.wait(ctx, 9*time.Second), context.DeadlineExceeded)
	})
}

func TestGrouper(t *testing.T) {
	audioOnly := &cmaf.Init{Tracks: []cmaf.TrackInfo{{ID: 2, Kind: cmaf.Audio, Timescale: 1000}}}
	ladder := &cmaf.Init{Tracks: []cmaf.TrackInfo{
		{ID: 9, Kind: cmaf.Data, Timescale: 1000},
		{ID: 1, Kind: cmaf.Video, Timescale: 1000}, {ID: 2, Kind: cmaf.Video, Timescale: 1000},
		{ID: 3, Kind: cmaf.Audio, Timescale: 1000},
	}}
	type step struct {
		track  uint32
		at     uint64
		sync   bool
		group  uint64
		starts bool
		ok     bool
	}
	for name, tt := range map[string]struct {
		in    *cmaf.Init
		steps []step
	}{
		"audio only: one group a second": {audioOnly, []step{
			{2, 500, true, 5, true, true}, {2, 1400, true, 5, false, true}, {2, 1500, true, 6, true, true},
			{2, 2499, true, 6, false, true},
		}},
		"several video tracks": {ladder, []step{
			{3, 0, true, 5, true, true}, // audio first
			{2, 0, false, 0, false, false},
			{1, 0, true, 5, true, true}, {2, 0, true, 5, true, true}, {3, 20, true, 5, false, true},
			{1, 40, false, 5, false, true}, {2, 40, false, 5, false, true},
			{1, 80, true, 6, true, true}, {3, 80, true, 6, true, true}, {2, 80, true, 6, true, true},
			{3, 100, true, 6, false, true},
			{9, 100, true, 6, true, true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouper(tt.in, nil, 5)
			for _, s := range tt.steps {
				group, starts, ok := g.place(cmaf.Chunk{Track: s.track, DecodeTime: s.at, Sync: s.sync})
				require.Equal(t, s, step{s.track, s.at, s.sync, group, starts, ok})
			}
		})
	}
}

// fixed is a Memory of a size.
type fixed struct{ left int }

func (m *fixed) Take(n int) bool {
	if n > m.left {
		return false
	}
	m.left -= n
	return true
}

func (m *fixed) Give(n int) { m.left += n }

// TestTrackMemory checks that tracks keep what there is memory for, and the newest object in any case.
func TestTrackMemory(t *testing.T) {
	t.Parallel()
	const most = 20 * (100 + objectOverhead)
	m := &fixed{left: most}
	one := newTrack(moqt.FullTrackName{}, 0, nil, History{Memory: m})
	other := newTrack(moqt.FullTrackName{}, 0, nil, History{Memory: m})
	for _, tr := range []*track{one, other} {
		for group := range uint64(3) {
			tr.startGroup(group)
			for range 10 {
				tr.add(object{payload: make([]byte, 100)})
			}
		}
		require.GreaterOrEqual(t, m.left, 0)
		require.Equal(t, most, m.left+one.counted+other.counted)
	}
	require.Equal(t, one.sizeLocked(), one.counted)
	require.Greater(t, one.sizeLocked(), 10*100)
	objects, _ := other.fetch(moqt.Everything)
	require.NotEmpty(t, objects)
	require.Equal(t, moqt.Location{Group: 2, Object: 9}, objects[len(objects)-1].location)
	m.left = 0
	other.add(object{payload: make([]byte, 1<<20)})
	objects, _ = other.fetch(moqt.Everything)
	require.Len(t, objects, 1)
	other.add(object{})
	require.Equal(t, moqt.Location{Group: 2, Object: 11}, *other.largest())
}
