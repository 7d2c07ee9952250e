package interop

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

//go:embed page
var page embed.FS

// TestBrowser has headless Chromium subscribe to the clip's video over WebTransport, and count what it gets.
func TestBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
			t.Fatal("chromium is missing: run make deps")
		}
		t.Skip("needs chromium: run make deps")
	}
	r := startRelay(t)
	start(t, nil, nil, sluiceBinary(t), "pub", "--relay", r.url("moqt"), "--tls-disable-verify", "--namespace", namespace, "--loop", clipFile)

	const wanted = 60 // frames: more than one group
	results := make(chan result, 1)
	site := newSite(t, results)
	query := url.Values{"url": {r.url("https") + "/"}, "sha256": {r.sha256}, "namespace": {namespace}, "track": {"1.m4s"}, "count": {"60"}}
	start(t, nil, nil, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), site.URL+"/?"+query.Encode())
	select {
	case got := <-results:
		require.Empty(t, got.Error)
		require.Equal(t, "moqt-18", got.Protocol)
		require.GreaterOrEqual(t, got.Objects, wanted)
		require.GreaterOrEqual(t, got.Groups, 2)
		require.Equal(t, "moof", got.First, "the first object is a chunk")
		require.Greater(t, got.Bytes, 100*wanted)
	case <-time.After(90 * time.Second):
		t.Fatal("the page reports nothing")
	}
}

// result is what the page reports.
type result struct {
	Objects, Groups, Bytes int
	First, Protocol, Error string
}

func newSite(t *testing.T, results chan<- result) *httptest.Server {
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
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}
