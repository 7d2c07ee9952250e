package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { scriptCommands["killchild"] = killChild }

// killChild is "killchild TEXT": it kills a child of the script's background command that has a text among its
// arguments, once there is one.
func killChild(ts *testscript.TestScript, _ bool, args []string) {
	parent := ts.BackgroundCmds()[0].Process.Pid
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		entries, err := os.ReadDir("/proc")
		ts.Check(err)
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil && isChild(pid, parent, args[0]) {
				ts.Check(syscall.Kill(pid, syscall.SIGKILL))
				return
			}
		}
	}
	ts.Fatalf("process %d has no child %q", parent, args[0])
}

func isChild(pid, parent int, argument string) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name of the program, in front, may contain spaces
	if fields := strings.Fields(rest); len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
		return false
	}
	// The kernel locks a process's memory to read its arguments, so those of others may take long.
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && slices.Contains(strings.Split(string(cmdline), "\x00"), argument)
}
