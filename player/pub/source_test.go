package pub

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/player/cmaf"
)

type openFunc = func() (io.ReadCloser, error)

// renditions publishes the clip in two qualities; the second one is a short clip with other tracks of the same ids.
func renditions(first, second string) PublisherConfig {
	return PublisherConfig{Open: openFile(first), Renditions: []openFunc{openFile(second)}, Unpaced: true}
}

// The same file twice has groups that start together.
func TestRenditionsAreAligned(t *testing.T) {
	f, s := newFeed(t, renditions(clip, clip))
	require.NoError(t, f.run(t.Context(), s))
	one, other := allObjects(f.broadcast.media[1]), allObjects(f.broadcast.media[3])
	require.Len(t, other, len(one))
	for i := range one {
		require.Equal(t, one[i].location, other[i].location)
	}
	require.False(t, f.groups.stray)

	f, s = newFeed(t, renditions(withB, clip))
	require.NoError(t, f.run(t.Context(), s))
	require.True(t, f.groups.stray, "the second input has its second key frame much later")
	require.True(t, f.groups.reported)
}

func TestRenditionErrors(t *testing.T) {
	closed := 0
	ours := func() (io.ReadCloser, error) {
		file, err := os.Open(clip)
		return &closer{file, &closed}, err
	}
	broken := errors.New("no such file")
	for name, second := range map[string]openFunc{
		"not there": func() (io.ReadCloser, error) { return nil, broken },
		"not MP4":   openBytes([]byte("hello, world")),
	} {
		cfg := PublisherConfig{Open: ours, Renditions: []openFunc{second}}
		closed = 0
		_, err := openSource(&cfg)
		var inputErr *InputError
		require.ErrorAs(t, err, &inputErr, name)
		require.ErrorContains(t, err, "rendition 2: ", name)
		require.Equal(t, 1, closed, "the first input is closed")
	}
}

type closer struct {
	io.Reader
	count *int
}

func (c *closer) Close() error {
	*c.count++
	return nil
}

// Tracks of a kind that only one input has are no alternatives.
func TestAlternatives(t *testing.T) {
	video, sound := cmaf.TrackInfo{ID: 1, Kind: cmaf.Video}, cmaf.TrackInfo{ID: 2, Kind: cmaf.Audio}
	camera, small := cmaf.TrackInfo{ID: 3, Kind: cmaf.Video}, cmaf.TrackInfo{ID: 4, Kind: cmaf.Video}
	one := &input{init: &cmaf.Init{Tracks: []cmaf.TrackInfo{video, sound, camera}}}
	s := &source{inputs: []*input{one}, init: one.init}
	require.Empty(t, s.alternatives())
	s.inputs = append(s.inputs, &input{init: &cmaf.Init{Tracks: []cmaf.TrackInfo{small}}})
	s.init = &cmaf.Init{Tracks: []cmaf.TrackInfo{video, sound, camera, small}}
	require.Equal(t, map[uint32]int{1: 1, 3: 1, 4: 1}, s.alternatives())
}
