package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Exec replaces this process by a command inside a host. The command finds the hosts of the lab by name.
// It returns only if that fails.
func (c *Client) Exec(ctx context.Context, host string, argv []string, env []string) error {
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(s.Hosts, func(h HostStatus) bool { return h.Name == host })
	if i < 0 {
		return fmt.Errorf("lab %s has no host %q; it has %s", s.Name, host, strings.Join(s.hostNames(), ", "))
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // until execve, which keeps what this thread is in
	if err := enter(s.Hosts[i].Namespace); err != nil {
		return fmt.Errorf("enter %s: %w", host, err)
	}
	// A lab that still answers has yet to look for processes, and will find this one. The connection is that of the
	// first request: a new one would look for the lab inside the host.
	if _, err := c.Status(ctx); err != nil {
		return err
	}
	if err := nameHosts(s.hostsFile(host)); err != nil {
		return fmt.Errorf("name the hosts in /etc/hosts: %w", err)
	}
	return fmt.Errorf("run %s: %w", path, unix.Exec(path, argv, env))
}

func (s Status) hostNames() (names []string) {
	for _, h := range s.Hosts {
		names = append(names, h.Name)
	}
	return names
}

func enter(namespace string) error {
	f, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}

// hostsFile returns the lines of /etc/hosts that name the hosts as one of them reaches them.
func (s Status) hostsFile(of string) string {
	var own *DeviceStatus
	for _, h := range s.Hosts {
		if h.Name == of && len(h.Devices) == 1 {
			own = &h.Devices[0]
		}
	}
	var b strings.Builder
	for _, h := range s.Hosts {
		for _, d := range h.Devices {
			if own == nil || d.IPv4.Contains(own.IPv4.Addr()) {
				fmt.Fprintf(&b, "%v\t%s\n%v\t%s\n", d.IPv4.Addr(), h.Name, d.IPv6.Addr(), h.Name)
			}
		}
	}
	return b.String()
}

// nameHosts lays a copy of /etc/hosts with more lines over it, visible to this thread and what it becomes.
func nameHosts(lines string) error {
	const path = "/etc/hosts"
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "sluice-lab-hosts-")
	if err != nil {
		return err
	}
	defer f.Close()
	defer os.Remove(f.Name()) // the mount keeps it
	if _, err := f.Write(append(old, "\n"+lines...)); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount(f.Name(), path, "", unix.MS_BIND, "")
}

// EndProcesses ends the processes that run in the lab's hosts, as switching the hosts off would: they are asked to, and
// those that remain after a grace period are killed. It returns how many there were, when none is left.
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
	killTimeout = 10 * time.Second // for the kernel to end what was killed
	endPoll     = 10 * time.Millisecond
)

// processes returns the other processes with a thread in one of the hosts. One that Exec is about to replace has not
// its main thread there.
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
		p, err := os.FindProcess(pid) // holds a pidfd: what is signalled is what was looked at
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
