package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/certtest"
	"sluice/internal/cli/clitest"
)

// TestMain has the program sluice, and a stand-in for sluice-rtt, which sluice rtt executes under its own name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sluice": main, "sluice-rtt": func() {}, "sluice rtt": func() { fmt.Printf("%q\n", os.Args) },
	})
}

func TestScripts(t *testing.T) {
	clitest.Run(t, map[string]clitest.Command{
		"envfile": envFile, "collect": clitest.Collect,
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
