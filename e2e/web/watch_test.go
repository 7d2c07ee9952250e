package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/moqt"
)

// TestWatch finds the clip in the list of what is live, and plays it. make check has it play for ten seconds more, in
// which it must lose nothing.
func TestWatch(t *testing.T) {
	r := startRelay(t, "--admin", "127.0.0.1:0")
	r.publishClip(t, "live/clip")
	b := browse(t)
	b.open(r.page)
	b.until(`document.querySelector('#live a')`)
	b.looks("list")
	b.click("#live a")
	b.awaitPictures(25)
	b.moves(16, 75)
	if thorough.Set() {
		b.losesNothing(func() { b.awaitPictures(b.statistics().Shown + 250) })
	}
	b.until(`document.querySelector('#live .count').textContent === '1 viewer'`)
	require.Equal(t, "?broadcast="+url.QueryEscape("live/clip"), eval[string](b, "location.search"))
	b.looks("watch")
	b.tells(r)
	require.Empty(t, b.console)
}

// TestCamera plays what a camera publishes by RTSP: FFmpeg acts as the camera, and sends the sample clip. Package rtsp
// makes the same broadcasts of cameras' streams, and TestWatch plays them.
func TestCamera(t *testing.T) {
	thorough.Only(t)
	t.Parallel()
	ffmpeg := find(t, "ffmpeg")
	r := startRelay(t, "--rtsp", "127.0.0.1:0", "--rtsp-rtp", "")
	startProgram(t, ffmpeg, "-v", "error", "-re", "-stream_loop", "-1", "-i", clip, "-c", "copy",
		"-rtsp_transport", "tcp", "-f", "rtsp", r.says(t, rtspURL)[1]+"live/camera")
	b := browse(t)
	b.open(r.page)
	b.until(`document.querySelector('#live a')`)
	require.Contains(t, eval[string](b, `document.querySelector('#live a').textContent`), "live/camera")
	b.click("#live a")
	b.awaitPictures(25)
	b.moves(16, 75)
	b.screenshot("camera")
	require.Empty(t, b.console)
}

var rtspURL = regexp.MustCompile(`RTSP +(rtsp://\S+)`)

// losesNothing expects the player to drop no picture while something is done, but for those that were due while the
// browser did not draw. A busy machine also delays what is not drawn: only make check looks at it.
func (b *tab) losesNothing(do func()) {
	b.t.Helper()
	eval[bool](b, countUndrawn)
	before := b.statistics()
	do()
	after, undrawn := b.statistics(), eval[int](b, "globalThis.undrawn")
	b.t.Logf("%+v, due while the browser did not draw: %d", after, undrawn)
	if thorough.Set() {
		require.LessOrEqual(b.t, after.Dropped-before.Dropped, undrawn)
		require.Equal(b.t, before.Lost, after.Lost)
	}
}

// countUndrawn counts, from now on, the pictures of a clip with 25 a second that a player has to drop because the
// browser does not draw often enough. A player draws one picture at a time, the oldest that is not too late (tooLate in
// web/src/media/video.ts).
const countUndrawn = `(() => {
	const tooLate = 200, period = 38; // ms; the player may be a little faster than the clip
	const count = globalThis.countsUndrawn = {};
	let last = performance.now(), late = 0; // late is how late the oldest picture is that was not drawn
	globalThis.undrawn = 0;
	const frame = (now) => {
		if (globalThis.countsUndrawn !== count) return; // another count has begun
		late = Math.max(0, late + now - last - period);
		last = now;
		for (; late > tooLate; late -= period) globalThis.undrawn++;
		requestAnimationFrame(frame);
	};
	requestAnimationFrame(frame);
	return true;
})()`

// TestEmbed shows only the player, as in a frame, which plays on after the relay was started again. A page of others
// has it as a web component.
func TestEmbed(t *testing.T) {
	thorough.Browser(t)
	r := startRelay(t)
	port := strings.Trim(r.page, "htp:/")
	pub := r.publishClip(t, "live/clip")
	b := browse(t)
	b.open(r.page + "embed?broadcast=live/clip&latency=500")
	b.awaitPictures(25)
	require.EqualValues(t, 500, b.statistics().Target)
	b.looks("embed")
	pub.stop()
	r.stop()
	b.until(`document.querySelector('sluice-player').shadowRoot.querySelector('.state').textContent !== ''`)
	b.screenshot("embed-lost")
	r = startRelay(t, "--listen", port)
	r.publishClip(t, "live/clip", "--packaging", "loc")
	b.awaitPictures(b.statistics().Shown + 25) // with another certificate, which the page asks for again

	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><script type="module" src="%sassets/player.js"></script>
			<sluice-player broadcast="live/clip"></sluice-player>
			<iframe src="%[1]sembed?broadcast=live/clip"></iframe>`, r.page)
	}))
	defer other.Close()
	b.open(other.URL)
	b.awaitPictures(25)
	b.screenshot("component")
	require.Equal(t, 1, eval[int](b, "frames.length"))
}

// TestGoaway goes on at the relay to which the page is sent.
func TestGoaway(t *testing.T) {
	thorough.Browser(t)
	t.Parallel()
	other := startRelay(t)
	other.publishClip(t, "live/clip")
	to := strings.Replace(other.moqt, "moqt:", "https:", 1)
	r := startRelay(t, "--drain", "30s", "--drain-uri", to)
	r.publishClip(t, "live/clip")
	b := browse(t)
	b.atStart(fmt.Sprintf(`globalThis.WebTransport = class extends WebTransport {
		constructor(url, options) { // no authority has signed the other relay's certificate
			const value = Uint8Array.from(%q.match(/../g), (hex) => parseInt(hex, 16));
			super(url, !url.startsWith(%q) ? options :
				{ ...options, serverCertificateHashes: [{ algorithm: 'sha-256', value }] });
			this.ready.then(() => (globalThis.opened ??= []).push(url));
		}
	}`, get(other.page+"certificate.sha256"), to))
	b.open(r.page + "embed?broadcast=live/clip")
	b.awaitPictures(25)
	require.NoError(t, r.Process.Signal(syscall.SIGTERM))
	b.until(`opened.length === 2`)
	require.Equal(t, to, strings.TrimSuffix(eval[string](b, `opened[1]`), "/"))
	b.until(inPlayer(".state", "textContent === ''"))
	b.awaitPictures(b.statistics().Shown + 25)
	require.Empty(t, b.console)
}

// TestDrafts plays at each draft of MoQT that the page speaks. The page offers all of them, so the test takes the
// others away. TestPublish has the oldest one, and all others the newest.
func TestDrafts(t *testing.T) {
	thorough.Only(t)
	t.Parallel()
	r := startRelay(t)
	r.publishClip(t, "live/clip")
	b := browse(t)
	for _, draft := range moqt.Versions() {
		if draft.HasOneControlStream() {
			continue // the page speaks later ones
		}
		b.speaks(draft)
		b.open(r.page + "embed?broadcast=live/clip")
		b.awaitPictures(5)
		require.Equal(t, draft.ALPN(), eval[string](b, "globalThis.spoken"))
	}
	require.Empty(t, b.console)
}

// speaks lets the pages that are opened next offer only one draft. They keep what was chosen.
func (b *tab) speaks(draft moqt.Version) {
	b.t.Helper()
	b.atStart(fmt.Sprintf(`globalThis.WebTransport = class extends (globalThis.AnyTransport ??= WebTransport) {
		constructor(url, options) {
			super(url, { ...options, protocols: [%q] });
			this.ready.then(() => globalThis.spoken = this.protocol);
		}
	}`, draft.ALPN()))
}

// TestWithoutWebCodecs plays by Media Source Extensions.
func TestWithoutWebCodecs(t *testing.T) {
	thorough.Browser(t)
	t.Parallel()
	r := startRelay(t, "--admin", "127.0.0.1:0")
	r.publishClip(t, "live/clip")
	b := browse(t)
	b.atStart(`delete globalThis.VideoDecoder`)
	b.open(r.page + "embed?broadcast=live/clip")
	b.awaitPictures(75)
	b.screenshot("embed-mse")
	require.True(t, eval[bool](b, `document.querySelector('sluice-player').shadowRoot.querySelector('canvas').hidden`))
	b.tells(r)
	require.Empty(t, b.console)
}
