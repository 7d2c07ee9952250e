package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// picture is what a page reports that has seen video.
type picture struct{ Width, Height int }

// npm serves the pages that e2e/interop/run has made of packages of npm, and opens them in Chromium.
type npm struct {
	chromium string
	url      string
	seen     chan picture
}

func newNPM(t *testing.T) *npm {
	t.Helper()
	dir := os.Getenv("SLUICE_INTEROP_NPM")
	if dir == "" {
		t.Skip("needs the packages of npm: run make interop")
	}
	chromium, err := exec.LookPath("chromium")
	require.NoError(t, err, "run make deps")
	n := &npm{chromium: chromium, seen: make(chan picture, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{page}", func(w http.ResponseWriter, req *http.Request) {
		if page := req.PathValue("page"); strings.HasSuffix(page, ".js") {
			http.ServeFile(w, req, filepath.Join(dir, page))
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><body><script type="module" src="%s.js"></script>`, req.PathValue("page"))
	})
	mux.HandleFunc("POST /result", func(_ http.ResponseWriter, req *http.Request) {
		var p picture
		if json.NewDecoder(req.Body).Decode(&p) == nil {
			n.seen <- p
		}
	})
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	n.url = strings.Replace(site.URL, "127.0.0.1", "localhost", 1) // a page of localhost may use WebTransport
	return n
}

// open opens a page in a browser of its own, with more for its query. At an http URL of the relay, the page asks there
// for the certificate's hash.
func (n *npm) open(t *testing.T, page string, r *relay, name string, more ...string) {
	t.Helper()
	query := neturl.Values{"url": {fmt.Sprintf("http://127.0.0.1:%d/", r.port)}, "name": {name}}
	for i := 0; i < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	start(t, nil, nil, n.chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
		"--autoplay-policy=no-user-gesture-required", "--user-data-dir="+t.TempDir(),
		n.url+"/"+page+"?"+query.Encode())
}

// requirePicture waits until the player has shown moving pictures of a size.
func (n *npm) requirePicture(t *testing.T, want picture) {
	t.Helper()
	select {
	case got := <-n.seen:
		require.Equal(t, want, got)
	case <-time.After(90 * time.Second):
		t.Fatal("the player shows nothing that moves")
	}
}

// TestMoqDev has @moq/watch play what @moq/publish, which has another release of @moq/net, and sluice pub publish. The
// relay has to tolerate mistakes of both.
func TestMoqDev(t *testing.T) {
	n := newNPM(t)
	t.Run("to itself", func(t *testing.T) {
		r := startRelay(t)
		n.open(t, "publish", r, "room/camera")
		n.open(t, "watch", r, "room/camera")
		n.requirePicture(t, picture{1280, 720})
		require.Contains(t, r.output.String(), "implementation=moq-lite-js")
	})
	t.Run("from sluice pub", func(t *testing.T) {
		r := startRelay(t)
		start(t, nil, nil, "sluice", "pub", "--relay", r.url("moqt"), "--tls-disable-verify", "--namespace",
			"room/clip", "--loop", clipFile)
		time.Sleep(2 * time.Second) // it joins late
		n.open(t, "watch", r, "room/clip")
		n.requirePicture(t, picture{640, 360})
	})
}

// TestShaka has Shaka Player play what sluice pub publishes. The relay has to tolerate its mistakes. Somebody else
// watches already, so no catalog is published for the player.
func TestShaka(t *testing.T) {
	n := newNPM(t)
	r := startRelay(t)
	r.publishClip(t)
	first := start(t, nil, nil, "sluice", "sub", "--relay", r.url("moqt"), "--tls-disable-verify", "--namespace",
		"room/clip", "--raw", "--tracks", "catalog")
	require.Eventually(t, func() bool { return strings.Contains(first.output.String(), "catalog group") },
		20*time.Second, 20*time.Millisecond, "sluice sub gets nothing")
	n.open(t, "shaka", r, "room/clip")
	n.requirePicture(t, picture{640, 360})
	require.Contains(t, r.output.String(), "implementation=ShakaPlayer/")
}

// TestPlaya has the session library of Playa play what sluice pub publishes without a container, and publish what
// sluice sub receives.
func TestPlaya(t *testing.T) {
	n := newNPM(t)
	for _, draft := range []string{"16", "18"} {
		t.Run("to "+draft, func(t *testing.T) {
			r := startRelay(t)
			r.publishClip(t, "--packaging", "loc")
			n.open(t, "playa", r, "room/clip", "draft", draft)
			n.requirePicture(t, picture{640, 360})
		})
	}
	for _, draft := range []string{"16", "18"} {
		t.Run("from "+draft, func(t *testing.T) { testPlayaPublishes(t, n, draft) })
	}
}

func testPlayaPublishes(t *testing.T, n *npm, draft string) {
	r := startRelay(t)
	n.open(t, "playa", r, "room/data", "draft", draft, "publish", "50")
	player := start(t, nil, nil, "sluice", "sub", "--relay", r.url("moqt"), "--tls-disable-verify", "--namespace",
		"room/data", "--wait", "20s", "--raw", "--tracks", "data", "--count", "50")
	player.wait(t, 60*time.Second)
	for i := range 50 {
		require.Contains(t, player.output.String(), fmt.Sprintf(` "object %d"`+"\n", i))
	}
}

// publishClip publishes the clip as room/clip, again and again.
func (r *relay) publishClip(t *testing.T, options ...string) {
	t.Helper()
	publisher := start(t, nil, nil, "sluice", append([]string{"pub", "--relay", r.url("moqt"), "--tls-disable-verify",
		"--namespace", "room/clip", "--loop", clipFile}, options...)...)
	require.Eventually(t, func() bool { return strings.Contains(publisher.output.String(), "published") },
		20*time.Second, 20*time.Millisecond, "sluice pub does not publish")
}
