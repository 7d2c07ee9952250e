package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMoqDev watches what the npm package @moq/publish publishes. make interop builds its page.
func TestMoqDev(t *testing.T) {
	site := os.Getenv("SLUICE_INTEROP_NPM")
	if site == "" {
		t.Skip("needs the packages of npm: run make interop")
	}
	r := startRelay(t)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, ".js") {
			http.ServeFile(w, q, filepath.Join(site, filepath.Base(q.URL.Path)))
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><body><script type="module" src="publish.js"></script>`)
	}))
	defer pages.Close()
	publisher := browse(t)
	query := url.Values{"url": {r.page}, "name": {"room/camera"}}
	publisher.open(strings.Replace(pages.URL, "127.0.0.1", "localhost", 1) + "/?" + query.Encode())
	b := browse(t)
	b.open(r.page + "embed?broadcast=room/camera")
	b.awaitPictures(30)
	b.moves(4, 30)
	t.Logf("%+v", b.statistics())
	b.screenshot("moq-dev")
	require.Empty(t, b.console)
}
