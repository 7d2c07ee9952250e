package main

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/cli/clitest"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"sluice": main}) }

func TestScripts(t *testing.T) { clitest.Run(t, map[string]clitest.Command{"envfile": envFile}) }

// envFile is "envfile NAME FILE": it sets a variable to the content of a file, without the spaces around it.
func envFile(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: envfile NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}
