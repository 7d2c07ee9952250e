package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// raisePrivileges makes all permitted capabilities effective. Those of a file (setcap(8), see dist/Dockerfile) are only
// permitted, so that the program also runs where it gets none of them.
func raisePrivileges() error {
	c := cap.GetProc()
	if err := c.FillFlag(cap.Effective, c, cap.Permitted); err != nil {
		return err
	}
	return c.SetProc()
}

// dropPrivileges gives up what a relay needs only to start, for good and in all threads: capabilities(7) to bind a low
// port, to load programs and to attach them to devices. What is left, and only if the process has it:
//
//   - CAP_BPF with the fast path, which makes maps for connections as they come. All else that it does to maps and
//     links needs only their descriptors.
//   - CAP_DAC_READ_SEARCH, which the relay has if root started it: it reads renewed certificates and tokens, which may
//     belong to other users.
func dropPrivileges(fastPath bool) error {
	if fastPath {
		return keepPrivileges(cap.DAC_READ_SEARCH, cap.BPF)
	}
	return keepPrivileges(cap.DAC_READ_SEARCH)
}

// dropMonitorPrivileges gives up what sluice rtt needs only to start: to load programs, and to attach them to devices.
// What is left, and only if the process has it:
//
//   - CAP_BPF, to run programs that clean up, and to read maps where sysctl kernel.unprivileged_bpf_disabled asks for
//     it.
//   - CAP_NET_ADMIN with filters of a qdisc, which are removed at the end. Links go with their descriptors.
//   - CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, which the process has if root started it: its output, its history and
//     the file with its groups may belong to other users.
func dropMonitorPrivileges(filters bool) error {
	keep := []cap.Value{cap.DAC_READ_SEARCH, cap.DAC_OVERRIDE, cap.BPF}
	if filters {
		keep = append(keep, cap.NET_ADMIN)
	}
	return keepPrivileges(keep...)
}

// keepPrivileges gives up all privileges but these. With no_new_privs no program that the process might be made to
// execute gets more, not even as root. So capabilities may stay in the bounding set.
func keepPrivileges(keep ...cap.Value) error {
	if _, err := cap.Prctlw(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	has, kept := cap.GetProc(), cap.NewSet()
	for _, c := range keep {
		permitted, err := has.GetFlag(cap.Permitted, c)
		if err != nil {
			return err
		}
		err = errors.Join(kept.SetFlag(cap.Permitted, permitted, c), kept.SetFlag(cap.Effective, permitted, c))
		if err != nil {
			return err
		}
	}
	if err := kept.SetProc(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
