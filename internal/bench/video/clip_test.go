package video

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func TestClip(t *testing.T) {
	c, err := OpenClip("../../../testdata/clip.mp4")
	require.NoError(t, err)
	require.Greater(t, c.groups, uint64(1))
	require.Equal(t, moqt.Location{}, c.Frame(0).Location)
	count := uint64(len(c.frames))
	again := c.Frame(count)
	require.Equal(t, moqt.Location{Group: c.groups}, again.Location, "the second round continues")
	require.Greater(t, again.Due, c.Frame(count-1).Due)
	for n := range count {
		d := digestOf(c.Payload(n+count, time.Time{}))
		_, err := c.Verify(c.Frame(n+count).Location, d)
		require.NoError(t, err)
		_, err = c.Verify(c.Frame(n+1).Location, d)
		require.ErrorIs(t, err, ErrNotOfClip)
	}
	_, err = OpenClip("clip_test.go")
	require.ErrorContains(t, err, "clip_test.go: ")
	_, err = OpenClip(t.TempDir() + "/none")
	require.ErrorIs(t, err, os.ErrNotExist)
}
