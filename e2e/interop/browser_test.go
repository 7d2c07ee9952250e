package interop

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
)

//go:embed page
var page embed.FS

// TestBrowser has headless Chromium subscribe to the clip's video over WebTransport, and count what it gets: on
// loopback, and in a lab where the kernel forwards it.
func TestBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
			t.Fatal("chromium is missing: run make deps")
		}
		t.Skip("needs chromium: run make deps")
	}
	t.Run("loopback", func(t *testing.T) {
		r := startRelay(t)
		here := &place{start: (*exec.Cmd).Start, do: func(f func() error) error { return f() }}
		loopClip(t, here.start, r.url("moqt"))
		here.browse(t, chromium, r.url("https"), r.sha256, 60)
	})
	t.Run("fast path", func(t *testing.T) {
		thorough.Only(t)
		r := startLabRelay(t)
		viewer := r.lab.Subscribers[0]
		loopClip(t, r.lab.Publisher.Start, r.from(r.lab.Publisher, "moqt"))
		there := &place{start: viewer.Start, do: viewer.Do}
		there.browse(t, chromium, r.from(viewer, "https"), r.sha256, 300)
		r.requireKernel(t, 100)
	})
}

// loopClip publishes the clip again and again once somebody subscribes.
func loopClip(t *testing.T, on starter, url string) {
	startBy(t, on, nil, nil, "sluice", "pub", "--relay", url, "--tls-disable-verify", "--namespace", namespace,
		"--wait", "--loop", clipFile)
}

// place is where the browser runs.
type place struct {
	start starter
	do    func(func() error) error
}

// browse has the browser receive some frames of the clip's video, 50 of which are a group. It returns the browser.
func (p *place) browse(t *testing.T, chromium, url, sha256 string, wanted int) (browser *process) {
	t.Helper()
	results := make(chan result, 1)
	site := p.newSite(t, results)
	query := neturl.Values{"url": {url + "/"}, "sha256": {sha256}, "namespace": {namespace}, "track": {"1.m4s"},
		"count": {fmt.Sprint(wanted)}}
	browser = startBy(t, p.start, nil, nil, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), site+"/?"+query.Encode())
	select {
	case got := <-results:
		require.Empty(t, got.Error)
		require.Equal(t, "moqt-18", got.Protocol)
		require.GreaterOrEqual(t, got.Objects, wanted)
		require.GreaterOrEqual(t, got.Groups, 2)
		require.Equal(t, "moof", got.First, "the first object is a chunk")
		require.Greater(t, got.Bytes, 100*wanted)
	case <-time.After(3 * time.Minute):
		t.Fatal("the page reports nothing")
	}
	return browser
}

// result is what the page reports.
type result struct {
	Objects, Groups, Bytes int
	First, Protocol, Error string
}

// newSite serves the page where the browser runs, and returns its URL.
func (p *place) newSite(t *testing.T, results chan<- result) string {
	t.Helper()
	files, err := fs.Sub(page, "page")
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("POST /result", func(_ http.ResponseWriter, req *http.Request) {
		var r result
		if err := json.NewDecoder(req.Body).Decode(&r); err != nil {
			r.Error = "the page reports nonsense: " + err.Error()
		}
		results <- r
	})
	s := httptest.NewUnstartedServer(mux)
	require.NoError(t, s.Listener.Close())
	require.NoError(t, p.do(func() (err error) {
		s.Listener, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}))
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}
