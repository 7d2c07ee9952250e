package service

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// RaisePrivileges makes all permitted capabilities effective. A file's (setcap(8), see dist/image.json) are only
// permitted, so that the program also runs where it gets none of them.
func RaisePrivileges() error {
	c := cap.GetProc()
	if err := c.FillFlag(cap.Effective, c, cap.Permitted); err != nil {
		return err
	}
	return c.SetProc()
}

// KeepPrivileges gives up all privileges but these. With no_new_privs no program that the process might be made to
// execute gets more, not even as root. So capabilities may stay in the bounding set.
func KeepPrivileges(keep ...cap.Value) error {
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
