package load

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab/bench/video"
	"sluice/player/cmaf"
)

// programConfig has programs publish and play in place of our own clients.
func programConfig(t *testing.T, publish bool, program ...string) GeneratorConfig {
	t.Helper()
	clip, err := os.Open("../../../testdata/clip.mp4")
	require.NoError(t, err)
	defer clip.Close()
	init, err := cmaf.NewReader(clip).Init()
	require.NoError(t, err)
	return GeneratorConfig{
		Publish: publish, Mock: video.Mock{Rate: 1e6, FrameRate: 100, Group: 10}, Sessions: 1,
		Program: program, Init: init.Only(init.Tracks[0].ID),
	}
}

// TestPrograms has programs publish and play that need no relay: a named pipe joins them. Until it is there, the player
// ends at once.
func TestPrograms(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	subscriber := startGenerator(t, programConfig(t, false, "cat", pipe))
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	publisher := startGenerator(t, programConfig(t, true, "sh", "-c", "exec cat >"+pipe))
	require.True(t, publisher.event(t).Ready)
	require.Equal(t, Event{Ready: true}, subscriber.event(t))
	publisher.tell(t, Go)
	for delivered := uint64(0); delivered < 15; delivered = *subscriber.event(t).Delivered {
		subscriber.tell(t, Count)
	}
	publisher.tell(t, Stop)
	published := publisher.event(t).Published
	require.NotNil(t, published)
	subscriber.tell(t, fmt.Sprintf("%s %d", Stop, published.Objects))
	received := subscriber.event(t).Received
	require.Equal(t, []Received{{Objects: published.Objects, Bytes: published.Bytes}}, received)
	publisher.tell(t, Stop)
	require.NoError(t, <-publisher.ended)
	require.NoError(t, <-subscriber.ended)
}

// TestProgramEnds tells why there is no publisher.
func TestProgramEnds(t *testing.T) {
	g := startGenerator(t, programConfig(t, true, "sh", "-c", "head -c 1 >/dev/null; exit 3"))
	require.True(t, g.event(t).Ready)
	require.ErrorContains(t, <-g.ended, "exit status 3")
}
