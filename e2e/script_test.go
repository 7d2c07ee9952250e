package e2e

import (
	"os"
	"testing"

	"sluice/internal/cli/clitest"
)

func TestMain(m *testing.M) {
	os.Exit(clitest.Main(m, "sluice", "sluice-rtt", "sluice-lab"))
}

// scriptCommands are commands that only scripts of this package use.
var scriptCommands = map[string]clitest.Command{}

func TestScripts(t *testing.T) { clitest.Run(t, scriptCommands) }
