package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDroppedPrivileges reads what the threads of a relay may do that root has started without the fast path. The
// script e2e/testdata/service.txtar reads it with the fast path.
func TestDroppedPrivileges(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip("needs root, which has privileges to drop")
	}
	pid := startRelayWithSlack(t, defaultTimerSlack)
	require.EqualValues(t, 1, readStatus(t, os.Getpid(), "CapEff")>>unix.CAP_NET_ADMIN&1, "this process has privileges")
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	require.NoError(t, err)
	require.Greater(t, len(threads), 1)
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		for field, want := range map[string]uint64{
			"CapPrm": 1 << unix.CAP_DAC_READ_SEARCH, "CapEff": 1 << unix.CAP_DAC_READ_SEARCH,
			"CapInh": 0, "CapAmb": 0, "NoNewPrivs": 1,
		} {
			require.Equal(t, want, readStatus(t, tid, field), "%s of thread %d", field, tid)
		}
	}
}

// readStatus reads a hexadecimal number from the status of a thread.
func readStatus(t *testing.T, tid int, field string) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^` + field + `:\s+(\w+)$`).FindSubmatch(text)
	require.NotNil(t, found, field)
	n, err := strconv.ParseUint(string(found[1]), 16, 64)
	require.NoError(t, err)
	return n
}
