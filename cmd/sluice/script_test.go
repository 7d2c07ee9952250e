package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/certtest"
	"sluice/internal/cli/clitest"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"sluice": main}) }

func TestScripts(t *testing.T) {
	clitest.Run(t, map[string]clitest.Command{
		"envfile": envFile, "collect": collect,
		"certify": func(ts *testscript.TestScript, _ bool, _ []string) { certify(t, ts) },
	})
}

// certify is "certify": it sets CA, CERT and KEY to files with a certificate for this machine, and its authority.
func certify(t *testing.T, ts *testscript.TestScript) {
	files := certtest.New(t).Issue(t)
	ts.Setenv("CA", files.CA)
	ts.Setenv("CERT", files.Cert)
	ts.Setenv("KEY", files.Key)
}

// envFile is "envfile NAME FILE": it sets a variable to the content of a file, without the spaces around it.
func envFile(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: envfile NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// collect is "collect NAME FILE": it starts an HTTP service that appends what is posted to it to a file, and sets a
// variable to its URL. The first POST fails.
func collect(ts *testscript.TestScript, _ bool, args []string) {
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
