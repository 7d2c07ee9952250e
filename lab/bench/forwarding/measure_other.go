//go:build !linux

package forwarding

import (
	"context"
	"errors"

	"sluice/lab/bench/result"
)

// Measure needs Linux.
func Measure(context.Context, Config) (*result.Report, error) {
	return nil, errors.New("monitors can only be measured on Linux")
}
