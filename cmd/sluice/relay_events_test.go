package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/relay"
)

// TestEventsAreSigned reads a secret from the file, and signs an event by it.
func TestEventsAreSigned(t *testing.T) {
	signature := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signature <- r.Header.Get("webhook-signature")
	}))
	defer server.Close()
	f := eventFlags{url: server.URL, secrets: filepath.Join(t.TempDir(), "secrets")}
	require.NoError(t, f.check())
	require.NoError(t, os.WriteFile(f.secrets, []byte("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\n"), 0o600))
	take, err := f.open()
	require.NoError(t, err)
	defer f.close()
	take(relay.Event{Type: relay.EventSessionStart})
	require.Contains(t, <-signature, "v1,")
}
