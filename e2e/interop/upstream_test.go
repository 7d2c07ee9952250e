package interop

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/system"
	"sluice/transport"
)

// origin is a relay of others at which a publisher is, and which Sluice has as its upstream relay.
type origin struct {
	*process
	port int
}

// startOrigin starts a relay that lab/bench/install-peers has installed, with more flags.
func startOrigin(t *testing.T, name, flags string) *origin {
	t.Helper()
	dir := os.Getenv("SLUICE_PEERS")
	if dir == "" {
		t.Skip("needs the relays of others: run make interop")
	}
	spec, err := system.Peer(name, filepath.Join(dir, "bin"))
	require.NoError(t, err)
	o := &origin{port: freePort(t)}
	files := t.TempDir()
	cert, key := writeCertificate(t, files)
	command := strings.NewReplacer("{addr}", fmt.Sprintf("127.0.0.1:%d", o.port), "{cert}", cert, "{key}", key,
		"{dir}", files).Replace(spec.Command)
	o.process = start(t, nil, nil, "sh", "-c", "exec "+command+flags)
	return o
}

// writeCertificate writes a certificate for 127.0.0.1 and its key.
func writeCertificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	made, _, err := transport.DevCertificate("127.0.0.1")
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	require.NoError(t, err)
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", made.Certificate[0]), write("key.pem", "PRIVATE KEY", private)
}

func (o *origin) url() string { return fmt.Sprintf("moqt://127.0.0.1:%d", o.port) }

// TestUpstream has the relays of others as upstream relays: Sluice pulls from them what is published there. The file
// that arrives must decode to all its frames. Over WebTransport, Sluice does not connect to them: they do not offer
// RESET_STREAM_AT, as the draft of WebTransport wants.
func TestUpstream(t *testing.T) {
	want := frames(t, clipFile)
	type peer struct{ name, flags string }
	peers := map[string]peer{}
	for _, name := range []string{"moq-relay-ietf", "moq-relay"} {
		peers[name] = peer{name, ""}
	}
	for _, draft := range drafts {
		peers["moq-relay "+draft] = peer{"moq-relay", " --listen-version moq-transport-" + draft}
	}
	for test, peer := range peers {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			o := startOrigin(t, peer.name, peer.flags)
			edge := startRelay(t, "--upstream", o.url(), "--upstream-tls-disable-verify")
			out, source, ended := clipInto(t)
			publish(t, (*exec.Cmd).Start, "sluice", o.url(), source)
			player := start(t, nil, nil, "sluice", "sub", "--relay", edge.url("moqt"), "--tls-disable-verify",
				"--namespace", namespace, "--wait", "15s", "--out", out.Name())
			<-ended
			player.wait(t, 30*time.Second)
			require.Equal(t, want, frames(t, out.Name()))
		})
	}
}

// mediaMTX is a MediaMTX that takes RTMP, and gives it out by MoQT.
type mediaMTX struct {
	*process
	rtmp, quic, http int
}

// startMediaMTX starts one with a certificate of its own.
func startMediaMTX(t *testing.T) *mediaMTX {
	t.Helper()
	path := client(t, "mediamtx")
	m := &mediaMTX{rtmp: freePort(t), quic: freePort(t), http: freePort(t)}
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir)
	config := filepath.Join(dir, "mediamtx.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
logLevel: debug
rtsp: false
hls: false
webrtc: false
srt: false
rtmp: true
rtmpAddress: 127.0.0.1:%d
moq: true
moqHTTP2Address: 127.0.0.1:%d
moqHTTP3Address: 127.0.0.1:%d
moqQUICAddress: 127.0.0.1:%d
moqServerCert: %s
moqServerKey: %s
paths:
  all_others:
`, m.rtmp, m.http, m.http, m.quic, cert, key), 0o600))
	m.process = start(t, nil, nil, path, config)
	require.Eventually(t, func() bool { return strings.Contains(m.output.String(), "[RTMP] ") }, time.Minute,
		20*time.Millisecond, "MediaMTX does not start")
	return m
}

// packetHashes returns the SHA-256 of each packet of a file's video.
func packetHashes(t *testing.T, file string) map[string]bool {
	t.Helper()
	out, err := exec.Command("ffmpeg", "-v", "error", "-i", file, "-map", "0:v:0", "-c", "copy", "-f", "framehash",
		"-hash", "sha256", "-").Output()
	require.NoError(t, err)
	hashes := make(map[string]bool)
	for _, line := range strings.Split(string(out), "\n") {
		if fields := strings.Split(line, ","); len(fields) == 6 && !strings.HasPrefix(line, "#") {
			hashes[strings.TrimSpace(fields[5])] = true
		}
	}
	require.NotEmpty(t, hashes)
	return hashes
}

// streams describes the streams of a file.
func streams(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.Command("ffprobe", "-v", "error", "-show_entries", "stream=codec_name,width,height", "-of",
		"csv=p=0", file).CombinedOutput()
	require.NoError(t, err, string(out))
	video, audio, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	fields := strings.Split(video, ",")
	require.Len(t, fields, 3, string(out))
	return fmt.Sprintf("%s %sx%s, %s", fields[0], fields[1], fields[2], audio)
}

var rawObject = regexp.MustCompile(`(?m)^0 group=.* sha256=([0-9a-f]{64})$`)

// TestMediaMTX has MediaMTX as the upstream relay: ffmpeg sends it the clip by RTMP, and Sluice pulls the tracks that
// MediaMTX makes of it. Their objects are the clip's frames, byte for byte, but for what MediaMTX adds to key frames.
//
// MediaMTX names its tracks 0, 1, …, whatever the namespace, and serves them only to sessions that have subscribed to
// its catalog before, and for as long as they do.
func TestMediaMTX(t *testing.T) {
	sent := packetHashes(t, clipFile)
	for _, scheme := range schemes {
		t.Run(scheme, func(t *testing.T) {
			m := startMediaMTX(t)
			start(t, nil, nil, "ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i", clipFile, "-c", "copy",
				"-f", "flv", fmt.Sprintf("rtmp://127.0.0.1:%d/live/clip", m.rtmp))
			require.Eventually(t, func() bool { return strings.Contains(m.output.String(), "is publishing to path") },
				20*time.Second, 20*time.Millisecond, "ffmpeg does not publish")
			port := map[string]int{"moqt": m.quic, "https": m.http}[scheme]
			edge := startRelay(t, "--upstream-namespace", fmt.Sprintf("live=%s://127.0.0.1:%d/live/clip", scheme, port),
				"--upstream-tls-disable-verify")
			sub := func(args ...string) *process {
				return start(t, nil, nil, "sluice", append([]string{
					"sub", "--relay", edge.url("moqt"), "--tls-disable-verify", "--namespace", "live/clip",
					"--wait", "10s",
				}, args...)...)
			}

			// The frames become MP4 that decodes, with pictures and sound, for longer than the relay keeps a track to
			// which nobody subscribes.
			out := filepath.Join(t.TempDir(), "out.mp4")
			sub("--duration", "6s", "--out", out).wait(t, 60*time.Second)
			require.Equal(t, "h264 640x360, aac", streams(t, out))
			played := frames(t, out)
			pictures, err := strconv.Atoi(played.video)
			require.NoError(t, err)
			require.Greater(t, pictures, 3*25, "%v, from the first key frame on", played)
			sound, err := strconv.Atoi(played.audio)
			require.NoError(t, err)
			require.Greater(t, sound, 5*44100/1024, "%v", played)

			catalog := sub("--raw", "--tracks", ".catalog")
			require.Eventually(t, func() bool { return strings.Contains(catalog.output.String(), ".catalog group=") },
				20*time.Second, 20*time.Millisecond, "the catalog does not come")
			video := sub("--raw", "--tracks", "0", "--count", "50")
			video.wait(t, 30*time.Second)
			same := 0
			for _, object := range rawObject.FindAllStringSubmatch(video.output.String(), -1) {
				if sent[object[1]] {
					same++
				}
			}
			require.Greater(t, same, 40, "%d of 50 objects are frames of the clip:\n%s", same, video.output.String())
		})
	}
}
