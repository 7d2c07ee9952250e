package chaos

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// kernelLog is the log of the kernel from a moment on.
type kernelLog struct{ fd int }

func openKernelLog() (*kernelLog, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/kmsg: %w", err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &kernelLog{fd}, nil
}

// bad matches records of a kernel that has a fault, or has found one in a program.
var bad = regexp.MustCompile(`BUG:|WARNING:|Oops|Call Trace|general protection|unable to handle|UBSAN|KASAN|` +
	`\bRCU\b|stall|hung task|blocked for more than|[bB][pP][fF]|verifier`)

// check returns an error if the kernel has logged a fault.
func (l *kernelLog) check() error {
	var found []string
	for buf := make([]byte, 8192); ; {
		n, err := unix.Read(l.fd, buf)
		if errors.Is(err, unix.EPIPE) { // records were overwritten before they were read
			continue
		}
		if err != nil || n == 0 { // EAGAIN: there are no more
			break
		}
		// "6,339,5140900,-;message", and lines with more about it
		_, message, _ := strings.Cut(string(buf[:n]), ";")
		if bad.MatchString(message) {
			found = append(found, strings.TrimSpace(message))
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("the kernel's log has\n  %s", strings.Join(found, "\n  "))
	}
	return nil
}

func (l *kernelLog) close() { _ = unix.Close(l.fd) }

// Faults are told from what kernels log about devices of labs.
func TestBadRecords(t *testing.T) {
	for _, text := range []string{
		"WARNING: CPU: 1 PID: 9 at kernel/bpf/verifier.c:1", "BUG: unable to handle page fault for address: 0",
		"rcu: INFO: rcu_sched self-detected stall on CPU",
		"general protection fault, probably for non-canonical address",
	} {
		require.Regexp(t, bad, text)
	}
	for _, text := range []string{
		"sub2: entered promiscuous mode", "downlink: port 3(sub2) entered forwarding state",
		"down: Caught tx_queue_len zero misconfig", "hrtimer: interrupt took 72000 ns",
	} {
		require.NotRegexp(t, bad, text)
	}
}
