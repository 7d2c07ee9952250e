package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/cli/clitest"
)

// TestMain lets the test binary act as sluice-lab, and as programs that are found but never run: these scripts end
// before processes start. Package e2e runs the real programs.
func TestMain(m *testing.M) {
	unused := func() { os.Exit(1) }
	testscript.Main(m, map[string]func(){"sluice-lab": main, "sluice": unused, "sluice-rtt": unused})
}

func TestScripts(t *testing.T) {
	clitest.Run(t, map[string]clitest.Command{"capture": readCapture, "schedules": writeSchedules})
}
