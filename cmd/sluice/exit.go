package main

import (
	"context"
	"errors"
)

// Exit codes, which exitCodes explains to the user.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitConnection
	exitRefused
	exitMedia
	exitDiffers
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

const exitCodes = `Exit codes: 0 success, 1 failure, 2 wrong usage, 3 no connection to the relay or connection lost,
4 refused by the relay, 5 media that cannot be read or written, 6 media that differs from the expected,
130 interrupted.`

// usageError is the user's mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(err error) int {
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	for _, code := range []func(error) (int, bool){pubExitCode, subExitCode, clientExitCode} {
		if c, ok := code(err); ok {
			return c
		}
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	return exitFailed
}
