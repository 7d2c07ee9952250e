package netns

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Missing returns a *MissingError if err means that the kernel lacks a feature, or denies it to this process.
func Missing(what string, err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENODEV, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.EACCES} {
		if errors.Is(err, e) {
			return &MissingError{What: what, Err: err}
		}
	}
	return fmt.Errorf("use %s: %w", what, err)
}
