package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRTSP has MediaMTX as a player and as a publisher by RTSP: it pulls what FFmpeg publishes at Sluice, and sends it
// back under another name. What FFmpeg plays of that has the pictures of the clip.
func TestRTSP(t *testing.T) {
	path := client(t, "mediamtx")
	sent := pictureHashes(t, "-i", clipFile)
	for _, transport := range []string{"udp", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			port, rtp := freePort(t), freeEvenPort(t)
			startRelay(t, "--rtsp", fmt.Sprintf("127.0.0.1:%d", port), "--rtsp-rtp", fmt.Sprintf("127.0.0.1:%d", rtp))
			url := fmt.Sprintf("rtsp://127.0.0.1:%d/live/", port)
			start(t, nil, nil, "ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i", clipFile, "-c", "copy",
				"-rtsp_transport", transport, "-f", "rtsp", url+"clip")

			config := filepath.Join(t.TempDir(), "mediamtx.yml")
			require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
rtsp: false
rtmp: false
hls: false
webrtc: false
srt: false
moq: false
paths:
  clip:
    source: %sclip
    rtspTransport: %s
    forward:
      - dest: %sback
`, url, transport, url), 0o600))
			start(t, nil, nil, path, config)
			var played map[string]bool
			require.Eventually(t, func() bool {
				var err error
				played, err = hashPictures("-rtsp_transport", transport, "-i", url+"back", "-t", "2")
				return err == nil
			}, 30*time.Second, 100*time.Millisecond, "MediaMTX does not send it back")
			same := 0
			for hash := range played {
				if sent[hash] {
					same++
				}
			}
			require.Len(t, played, same, "some pictures differ")
		})
	}
}

// freeEvenPort returns a UDP port for RTP. RTCP has the next one.
func freeEvenPort(t *testing.T) int {
	t.Helper()
	for {
		if port := freePort(t); port%2 == 0 && freePort(t) == port+1 {
			return port
		}
	}
}

func pictureHashes(t *testing.T, input ...string) map[string]bool {
	t.Helper()
	hashes, err := hashPictures(input...)
	require.NoError(t, err)
	return hashes
}

// hashPictures returns the hashes of the pictures of an input of FFmpeg.
func hashPictures(input ...string) (map[string]bool, error) {
	out, err := exec.Command("ffmpeg", append(append([]string{"-v", "error"}, input...),
		"-map", "0:v:0", "-f", "framehash", "-hash", "sha256", "-")...).Output()
	if err != nil {
		return nil, err
	}
	hashes := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		if fields := strings.Split(line, ","); len(fields) == 6 && !strings.HasPrefix(line, "#") {
			hashes[strings.TrimSpace(fields[5])] = true
		}
	}
	if len(hashes) == 0 {
		return nil, fmt.Errorf("no pictures: %s", out)
	}
	return hashes, nil
}
