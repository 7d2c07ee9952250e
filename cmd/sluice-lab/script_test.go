package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/cli/clitest"
)

// TestMain lets the test binary stand for sluice-lab, and for a sluice that is found but never runs: these scripts
// test what happens before processes start. Package e2e runs the real ones.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sluice-lab": main, "sluice": func() { os.Exit(1) }})
}

func TestScripts(t *testing.T) { clitest.Run(t, nil) }
