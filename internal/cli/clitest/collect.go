package clitest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// Collect is "collect NAME FILE": it starts an HTTP service that appends posted bodies to a file, and sets a variable
// to its URL. The first POST fails.
func Collect(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: collect NAME FILE")
	}
	file, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	failed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !failed {
			failed = true
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.Copy(file, r.Body)
	}))
	ts.Defer(func() {
		server.Close()
		_ = file.Close()
	})
	ts.Setenv(args[0], server.URL)
}
