package load

import (
	"os/exec"
	"syscall"
)

// endWithThread has a program killed when the thread ends that starts it, and so with this process.
func endWithThread(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
