// Package thorough tells tests of make check from tests of make test. Tests of make test are certain on a busy machine
// and take little time. What measures, needs media at its own speed, or tries a variant of what another test shows, is
// for make check, which sets SLUICE_CHECK.
package thorough

import (
	"os"
	"testing"
)

// Set reports whether all tests are to run.
func Set() bool { return os.Getenv("SLUICE_CHECK") != "" }

// Only skips a test that is for make check alone.
func Only(t testing.TB) {
	t.Helper()
	if !Set() {
		t.Skip("make check runs it, or SLUICE_CHECK=1")
	}
}
