package interop

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPipes publishes what programs write to a pipe, and plays it. All frames arrive.
func TestPipes(t *testing.T) {
	for name, command := range map[string]string{
		"ffmpeg": "ffmpeg -v error -f lavfi -i testsrc2=size=320x180:rate=25 -t 6 -c:v libx264 -preset veryfast " +
			"-g 50 -f mp4 -movflags +cmaf+separate_moof+frag_keyframe -frag_duration 40000 -",
		"gst-launch-1.0": "gst-launch-1.0 -q videotestsrc num-buffers=150 ! video/x-raw,width=320,height=180," +
			"framerate=25/1 ! x264enc key-int-max=50 ! h264parse ! mp4mux fragment-duration=40 streamable=true ! " +
			"fdsink",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("needs %s", name)
			}
			if name == "gst-launch-1.0" {
				needsElements(t, "x264enc", "h264parse", "mp4mux")
			}
			r := startRelay(t)
			start(t, nil, nil, "sh", "-c", fmt.Sprintf("%s | sluice pub --relay %s --tls-disable-verify "+
				"--namespace %s --wait -", command, r.url("moqt"), namespace))
			out := filepath.Join(t.TempDir(), "out.mp4")
			player := start(t, nil, nil, "sluice", "sub", "--relay", r.url("moqt"), "--tls-disable-verify",
				"--namespace", namespace, "--wait", "1m", "--out", out)
			player.wait(t, 3*time.Minute)
			require.Equal(t, "150", frames(t, out).video)
		})
	}
}
