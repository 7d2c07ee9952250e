package fastpath

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// trouble matches a kernel's messages when something is wrong (include/asm-generic/bug.h, lib/bug.c, kernel/rcu,
// lib/kasan).
var trouble = regexp.MustCompile("WARNING: |BUG: |Oops|general protection fault|verifier bug|" +
	"scheduling while atomic|rcu: INFO|UBSAN|refcount_t")

// TestMain fails if the kernel complains while the tests run.
func TestMain(m *testing.M) {
	if device := os.Getenv(childDevice); device != "" {
		child(device)
		return
	}
	log, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Seek(log, 0, unix.SEEK_END)
	}
	code := m.Run()
	if err != nil {
		fmt.Println("the kernel's log is not looked at:", err)
		os.Exit(code)
	}
	for _, message := range messages(log) {
		if trouble.MatchString(message) {
			fmt.Println("FAIL: the kernel says:", message)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// messages reads the messages since the last call.
func messages(log int) (all []string) {
	buffer := make([]byte, 8192) // of one record
	for {
		n, err := unix.Read(log, buffer)
		switch {
		case err == nil:
			all = append(all, string(buffer[:n]))
		case errors.Is(err, unix.EPIPE): // some were overwritten
		case errors.Is(err, unix.EINTR):
		default: // EAGAIN: there are no more
			return all
		}
	}
}

// TestTrouble checks that a warning would be noticed.
func TestTrouble(t *testing.T) {
	for _, line := range []string{
		"4,1,2,-;WARNING: CPU: 1 PID: 2 at kernel/bpf/verifier.c:123 check+0x1/0x2",
		"2,1,2,-;BUG: unable to handle page fault for address: 0",
		"4,1,2,-;verifier bug: REG INVARIANTS VIOLATION",
	} {
		if !trouble.MatchString(line) {
			t.Error("not noticed:", line)
		}
	}
	if trouble.MatchString("6,113258,15387121797,-;downlink: port 2(sub1) entered blocking state") {
		t.Error("a message of every day is taken for trouble")
	}
}
