package netns

import "fmt"

// MissingError names a permission or a part of the kernel that a lab needs and does not find.
type MissingError struct {
	What string
	Err  error // may be nil
}

func (e *MissingError) Error() string {
	if e.Err == nil {
		return "missing " + e.What
	}
	return fmt.Sprintf("missing %s: %v", e.What, e.Err)
}

func (e *MissingError) Unwrap() error { return e.Err }
