package web

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/moqt"
)

// publish opens the page to publish in a tab, and publishes with what the fields of the form are set to.
func (b *tab) publish(r *relay, fields map[string]string) {
	b.t.Helper()
	b.open(r.page + "publish")
	b.until(`!document.getElementById('start').disabled`)
	text, err := json.Marshal(fields)
	require.NoError(b.t, err)
	b.until(fmt.Sprintf(`Object.entries(%s).every(([id, value]) => {
		const e = document.getElementById(id);
		if (e.type === 'checkbox') return (e.checked = value === 'on') === (value === 'on');
		e.value = value;
		return e.value === value;
	})`, text))
	b.click("#start")
	b.until(`document.getElementById('state').textContent === 'Live.'`)
}

// TestPublish publishes a fake camera in one tab, watches it in another one at an older draft, and with sluice sub. All
// need a token.
func TestPublish(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("open-sesame all live\n"), 0o600))
	r := startRelay(t, "--auth-token-file", tokens)
	b := browse(t)
	b.publish(r, map[string]string{
		"name": "live/me", "size": "360", "second": "on", "group": "1000", "token": "open-sesame",
	})
	b.looks("publish")

	viewer := browse(t)
	viewer.speaks(moqt.Draft18)
	viewer.open(r.page + "?broadcast=live/me#token=open-sesame")
	viewer.awaitPictures(30)
	viewer.until(`document.getElementById('state').textContent.includes('does not tell what is live')`)
	viewer.moves(4, 30)
	viewer.looks("watch-published")

	for _, height := range []int{180, 360} {
		viewer.chooseQuality(fmt.Sprintf("%dp", height))
		viewer.until(inPlayer("canvas", fmt.Sprintf("height === %d", height)))
	}

	require.Contains(t, r.record(t, "live/me", "SLUICE_AUTH_TOKEN=open-sesame"), "opus,")
	require.Empty(t, b.console)
	require.Empty(t, viewer.console)
}

// TestPublishFromElements publishes a camera and a microphone with a browser that hands neither to pages. No other test
// runs meanwhile, since its tabs may hide the page, which then gets no pictures.
func TestPublishFromElements(t *testing.T) {
	thorough.Browser(t)
	r := startRelay(t)
	b := browse(t)
	b.atStart(`delete globalThis.MediaStreamTrackProcessor`)
	b.run(page.BringToFront())
	b.publish(r, map[string]string{"name": "live/me", "size": "360", "group": "1000"})
	require.Regexp(t, `opus,[1-9]\d+`, r.record(t, "live/me"))
	require.Empty(t, b.console)
}

// record takes two seconds of a broadcast by sluice sub, and returns the codecs of its tracks, each with the number of
// frames that were decoded.
func (r *relay) record(t *testing.T, name string, env ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.mp4")
	sub := exec.Command("sluice", "sub", "--relay", r.moqt, "--tls-disable-verify", "--namespace", name, "--out", out,
		"--duration", "2s")
	sub.Env = append(os.Environ(), env...)
	text, err := sub.CombinedOutput()
	require.NoError(t, err, string(text))
	decoded, err := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_entries",
		"stream=codec_name,nb_read_frames", "-of", "csv=p=0", out).CombinedOutput()
	require.NoError(t, err, string(decoded))
	require.Regexp(t, `^(\w+,\d+\n)+$`, string(decoded), "it says only how many frames were decoded")
	return string(decoded)
}

// clockCamera makes the page's camera show the time: squares with its bits, beside something that moves.
const clockCamera = `navigator.mediaDevices.getUserMedia = async () => {
	const c = document.createElement('canvas');
	c.width = 640; c.height = 360;
	const g = c.getContext('2d');
	setInterval(() => {
		const now = Date.now() % 2 ** 32;
		g.fillStyle = '#357';
		g.fillRect(0, 0, 640, 360);
		g.fillStyle = '#fc0';
		g.fillRect(now / 5 % 640, 200, 60, 60);
		for (let i = 0; i < 32; i++) {
			g.fillStyle = Math.floor(now / 2 ** i) % 2 ? '#fff' : '#000';
			g.fillRect(i * 20, 0, 20, 40);
		}
	}, 20);
	return c.captureStream(30);
}; true`

// readClock reads the time in the picture, and returns how long ago that was, in milliseconds.
const readClock = `(() => {
	const c = document.querySelector('sluice-player').shadowRoot.querySelector('canvas');
	const p = c.getContext('2d').getImageData(0, 20, c.width, 1).data;
	let then = 0;
	for (let i = 0; i < 32; i++) if (p[4 * Math.floor((i + 0.5) * c.width / 32)] > 127) then += 2 ** i;
	return (Date.now() % 2 ** 32) - then;
})()`

// TestGlassToGlass measures how old the picture is that a viewer sees. It reports that, and asserts only that the clock
// can be read.
func TestGlassToGlass(t *testing.T) {
	thorough.Only(t)
	r := startRelay(t)
	b := browse(t)
	b.open(r.page + "publish")
	b.until(`!document.getElementById('start').disabled`)
	eval[bool](b, clockCamera)
	eval[bool](b, `document.getElementById('name').value = 'live/clock'; true`)
	b.click("#start")
	b.until(`document.getElementById('state').textContent === 'Live.'`)
	viewer := browse(t)
	viewer.open(r.page + "?broadcast=live/clock")
	viewer.awaitPictures(60)
	var ages []float64
	for range 40 {
		ages = append(ages, eval[float64](viewer, readClock))
		time.Sleep(50 * time.Millisecond)
	}
	slices.Sort(ages)
	stats := viewer.statistics()
	t.Logf("glass to glass: median %.0f ms, from %.0f to %.0f ms; the player says %.0f ms, with a buffer of %.0f ms",
		ages[20], ages[0], ages[39], *stats.EndToEnd, stats.Target)
	viewer.screenshot("clock")
	require.Less(t, ages[20], 60_000.0, "the clock in the picture cannot be read")
	if os.Getenv("SLUICE_SCREENSHOTS") != "" {
		b.screenshot("clock-publisher")
	}
}
