package interop

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// needsElements skips a test without these elements of GStreamer, which come in several packages.
func needsElements(t *testing.T, elements ...string) {
	t.Helper()
	for _, e := range elements {
		if exec.Command("gst-inspect-1.0", "--exists", e).Run() != nil {
			t.Skipf("needs GStreamer's %s", e)
		}
	}
}

// TestGStreamer has GStreamer publish the clip by RTSP, and play it. What it plays has the pictures of the clip.
func TestGStreamer(t *testing.T) {
	const gst = "gst-launch-1.0"
	needsElements(t, "rtspclientsink", "rtspsrc", "qtdemux")
	sent := pictureHashes(t, "-i", clipFile)
	long := filepath.Join(t.TempDir(), "long.mp4")
	require.NoError(t, exec.Command("ffmpeg", "-v", "error", "-stream_loop", "11", "-i", clipFile, "-map", "0:v",
		"-c", "copy", long).Run())
	for _, transport := range []string{"udp", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			port, rtp := freePort(t), freeEvenPort(t)
			startRelay(t, "--rtsp", fmt.Sprintf("127.0.0.1:%d", port), "--rtsp-rtp", fmt.Sprintf("127.0.0.1:%d", rtp))
			location := fmt.Sprintf("location=rtsp://127.0.0.1:%d/live/gst protocols=%s", port, transport)
			launch := func(pipeline string) *process {
				return start(t, nil, nil, gst, strings.Fields("-q "+pipeline)...)
			}
			launch("filesrc location=" + long + " ! qtdemux ! video/x-h264 ! identity sync=true ! " +
				"rtspclientsink " + location)
			out := filepath.Join(t.TempDir(), "out.h264")
			require.Eventually(t, func() bool {
				player := launch("rtspsrc " + location + " ! rtph264depay ! video/x-h264,stream-format=byte-stream," +
					"alignment=au ! identity eos-after=50 ! filesink location=" + out)
				<-player.done
				return player.err == nil
			}, time.Minute, 100*time.Millisecond, "GStreamer does not play it")
			played := pictureHashes(t, "-i", out)
			same := 0
			for hash := range played {
				if sent[hash] {
					same++
				}
			}
			require.Greater(t, len(played), 40)
			require.Len(t, played, same, "some pictures differ")
		})
	}
}
