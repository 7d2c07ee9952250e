package interop

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// picoquicPlayer is aiomoqt's player, whose QUIC is picoquic. It announces min_ack_delay, and takes ACK_FREQUENCY from
// relays only that announce it, too.
type picoquicPlayer struct {
	*process
	dir string
}

// playByPicoquic plays the clip, and ends some seconds after it.
func playByPicoquic(t *testing.T, on starter, url, draft string) *picoquicPlayer {
	t.Helper()
	p := &picoquicPlayer{dir: t.TempDir()}
	p.process = startBy(t, on, nil, nil, client(t, "../picoquic/bin/python"), "-u", "-m", "aiomoqt.tools.sub_media",
		url+"/", "--insecure", "--draft", draft, "--namespace", namespace, "--packaging", "cmaf", "--out", p.dir,
		"--duration", "12")
	return p
}

// hasCatalog reports whether it knows what to play.
func (p *picoquicPlayer) hasCatalog() bool { return strings.Contains(p.output.String(), "catalog: [") }

// requireClip expects that it has written all frames of the clip.
func (p *picoquicPlayer) requireClip(t *testing.T, want counts) {
	t.Helper()
	p.wait(t, time.Minute)
	video, audio := frames(t, filepath.Join(p.dir, "video.mp4")), frames(t, filepath.Join(p.dir, "audio.mp4"))
	got := counts{video.video, audio.audio}
	require.Equal(t, want, got, p.output.String())
}

// TestPicoquic plays a whole clip by each draft that the player speaks, and by WebTransport.
func TestPicoquic(t *testing.T) {
	client(t, "../picoquic/bin/python")
	want := frames(t, clipFile)
	for _, way := range [][2]string{{"moqt", "16"}, {"moqt", "18"}, {"moqt", "20"}, {"moqt", "22"}, {"https", "22"}} {
		t.Run(strings.Join(way[:], " "), func(t *testing.T) {
			t.Parallel()
			r := startRelay(t)
			playPicoquic(t, (*exec.Cmd).Start, (*exec.Cmd).Start, r.url(way[0]), r.url(way[0]), way[1], want)
			require.Contains(t, r.output.String(), "version=draft-ietf-moq-transport-"+way[1])
		})
	}
}

// TestPicoquicFastPath has the kernel forward the clip.
func TestPicoquicFastPath(t *testing.T) {
	client(t, "../picoquic/bin/python")
	r := startLabRelay(t)
	publisher, subscriber := r.lab.Publisher, r.lab.Subscribers[0]
	playPicoquic(t, publisher.Start, subscriber.Start, r.from(publisher, "moqt"), r.from(subscriber, "moqt"), "22",
		frames(t, clipFile))
}

// playPicoquic publishes the clip with sluice, and plays it.
func playPicoquic(t *testing.T, pubOn, subOn starter, pubURL, subURL, draft string, want counts) {
	t.Helper()
	catalog := make(chan struct{})
	source, ended := liveClip(t, func() bool {
		select {
		case <-catalog:
			return true
		default:
			return false
		}
	})
	publish(t, pubOn, "sluice", pubURL, source)
	p := playByPicoquic(t, subOn, subURL, draft)
	require.Eventually(t, p.hasCatalog, time.Minute, 10*time.Millisecond, "no catalog: %s", &p.output)
	close(catalog)
	<-ended
	p.requireClip(t, want)
}
