package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCoarseTimers reads the slack of all threads of a relay that was started with the kernel's default, and with
// another one.
func TestCoarseTimers(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip("needs CAP_SYS_NICE")
	}
	for _, test := range []struct{ inherited, want uintptr }{
		{defaultTimerSlack, timerSlack},
		{1_000_000, 1_000_000},
	} {
		t.Run(fmt.Sprint(test.inherited), func(t *testing.T) {
			pid := startRelayWithSlack(t, test.inherited)
			tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
			require.NoError(t, err)
			require.Greater(t, len(tasks), 1)
			for _, task := range tasks {
				slack, err := os.ReadFile(fmt.Sprintf("/proc/%s/timerslack_ns", task.Name()))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(test.want), strings.TrimSpace(string(slack)), "thread %s", task.Name())
			}
		})
	}
}

// startRelayWithSlack starts a relay with an inherited timer slack, and returns its process id when it listens.
func startRelayWithSlack(t *testing.T, slack uintptr) int {
	runtime.LockOSThread() // children inherit the slack of the thread that creates them
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0))
	defer func() { require.NoError(t, unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)) }()

	program, err := os.Executable()
	require.NoError(t, err)
	return startRelay(t, exec.Command(program), "127.0.0.1:0")
}

// startRelay starts a relay by a command that executes this program, and returns its process id when it listens.
func startRelay(t *testing.T, relay *exec.Cmd, listen string) int {
	// The name chooses main.
	relay.Args = []string{"sluice", "relay", "--dev", "--listen", listen, "--admin", "", "--fastpath", "off"}
	relay.Stderr = os.Stderr
	out, err := relay.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, relay.Start())
	t.Cleanup(func() {
		require.NoError(t, relay.Process.Signal(unix.SIGTERM))
		require.NoError(t, relay.Wait())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "listening")
	return relay.Process.Pid
}
