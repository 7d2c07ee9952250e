package e2e

import (
	"fmt"
	"os"
	"testing"

	"sluice/internal/cli/clitest"
)

func TestMain(m *testing.M) {
	if isStay() {
		if err := stay(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(clitest.Main(m, "sluice", "sluice-rtt", "sluice-lab"))
}

// scriptCommands are commands that only scripts of this package use.
var scriptCommands = map[string]clitest.Command{}

func TestScripts(t *testing.T) { clitest.Run(t, scriptCommands) }
