// Package thorough tells tests of make check and make browser from tests of make test. Tests of make test are certain
// on a busy machine and take little time. What measures, needs media at its own speed, or tries a variant of what
// another test shows, is for make check, which sets SLUICE_CHECK.
//
// What a machine lacks skips a test, too, unless SLUICE_REQUIRE_KERNEL says that the machine must have it.
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

// Browser skips a test that is for make browser and make check: browsers compute for long, and make test shows that
// pages work.
func Browser(t testing.TB) {
	t.Helper()
	if !Set() && os.Getenv("SLUICE_BROWSER") == "" {
		t.Skip("make browser runs it, or SLUICE_BROWSER=1")
	}
}

// Root skips a test that needs root, to load BPF programs for one, or fails it where there must be root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
		t.Fatal("needs root, which SLUICE_REQUIRE_KERNEL demands")
	}
	t.Skip("needs root")
}
