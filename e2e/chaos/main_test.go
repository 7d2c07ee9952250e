package chaos

import (
	"os"
	"testing"

	"sluice/internal/cli/clitest"
)

// TestMain runs the tests, or acts as the hostile peer that one of them has started.
func TestMain(m *testing.M) {
	if task := os.Getenv(taskVariable); task != "" {
		os.Exit(beHostile(task))
	}
	if task := os.Getenv(rtspVariable); task != "" {
		os.Exit(beRTSP(task))
	}
	os.Exit(clitest.Main(m, "sluice"))
}
