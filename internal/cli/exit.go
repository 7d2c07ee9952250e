package cli

import (
	"fmt"
)

// Exit codes, which exitCodes explains to the user.
const (
	ExitOK = iota
	ExitFailed
	ExitUsage
	ExitConnection
	ExitRefused
	ExitMedia
	ExitDiffers
	ExitInterrupted = 130 // 128 + SIGINT, as in shells
)

const exitCodes = `Exit codes: 0 success, 1 failure, 2 wrong usage, 3 no connection to the relay or connection lost,
4 refused by the relay, 5 media that cannot be read or written, 6 media that differs from the expected,
130 interrupted.`

// UsageError is the user's mistake in the command line.
type UsageError struct{ error }

// Unwrap returns the mistake.
func (e UsageError) Unwrap() error { return e.error }

// Usage makes a UsageError as [fmt.Errorf] makes an error.
func Usage(format string, args ...any) error {
	return UsageError{fmt.Errorf(format, args...)}
}

// AsUsage makes an error a UsageError, unless it is nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return UsageError{err}
}
