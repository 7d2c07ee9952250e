package control

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/lab"
)

func hostNames(s lab.Status) (names []string) {
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
func hostsFile(s lab.Status, of string) string {
	var own *lab.DeviceStatus
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

// nameHosts mounts a copy of /etc/hosts with more lines over it. Only this thread and the command see it.
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
