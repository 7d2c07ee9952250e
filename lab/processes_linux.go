package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// EndProcesses ends the processes that run in the lab's hosts, as a shutdown of the hosts would: it asks them to end,
// and kills the ones that remain after a grace period. It returns their number when none is left.
func (l *Lab) EndProcesses(grace time.Duration) (count int, err error) {
	processes, err := l.processes()
	count = len(processes)
	for _, p := range processes {
		p.Signal(unix.SIGTERM)
	}
	for start := time.Now(); len(processes) > 0 && err == nil; processes, err = l.processes() {
		switch waited := time.Since(start); {
		case waited > grace+killTimeout:
			return count, fmt.Errorf("%d processes in the lab do not end", len(processes))
		case waited > grace:
			for _, p := range processes {
				p.Kill()
			}
		}
		time.Sleep(endPoll)
	}
	return count, err
}

const (
	killTimeout = 10 * time.Second // for the kernel to end killed processes
	endPoll     = 10 * time.Millisecond
)

// processes returns the other processes with a thread in one of the hosts. The main thread of a process that
// Client.Exec is about to replace may be elsewhere.
func (l *Lab) processes() ([]*os.Process, error) {
	inside := make(map[string]bool)
	for _, h := range l.Hosts() {
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", h.ns.File.Fd()))
		if err != nil {
			return nil, err
		}
		inside[link] = true
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []*os.Process
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil || pid == os.Getpid() {
			continue
		}
		p, err := os.FindProcess(pid) // holds a pidfd, so the signal reaches this process only
		if err != nil {
			continue
		}
		if hasThreadIn(pid, inside) {
			found = append(found, p)
		} else {
			p.Release()
		}
	}
	return found, nil
}

// hasThreadIn reports whether a thread of a process is in one of the network namespaces.
func hasThreadIn(pid int, namespaces map[string]bool) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/net", pid))
	return slices.ContainsFunc(threads, func(path string) bool {
		link, err := os.Readlink(path)
		return err == nil && namespaces[link]
	})
}
