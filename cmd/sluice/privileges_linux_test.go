package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// TestDroppedPrivileges reads the capabilities of the threads of a relay that root has started without the fast path.
// The script e2e/testdata/service.txtar reads it with the fast path.
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

// TestFileCapabilities starts a relay that is not root, whose file has the capabilities of the container image. It uses
// one of them to bind port 443.
func TestFileCapabilities(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip("needs root, to give capabilities to a file")
	}
	dir, err := os.MkdirTemp("", "sluice-test-") // t.TempDir is closed to other users
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	program, err := os.Executable()
	require.NoError(t, err)
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	copied := filepath.Join(dir, "sluice")
	require.NoError(t, os.WriteFile(copied, text, 0o755))
	permitted, err := cap.FromText("cap_net_bind_service,cap_bpf,cap_net_admin,cap_perfmon=p")
	require.NoError(t, err)
	require.NoError(t, permitted.SetFile(copied))

	relay := exec.Command(copied)
	relay.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		Cloneflags: unix.CLONE_NEWNET, // in which ports below 1024 need a privilege
	}
	pid := startRelay(t, relay, ":443")
	require.Zero(t, readStatus(t, pid, "CapPrm"), "given up again")
}

const nobody = 65534 // the user and the group with the least rights

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
