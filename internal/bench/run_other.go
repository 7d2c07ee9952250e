//go:build !linux

package bench

import (
	"context"

	"sluice/internal/bench/result"
	"sluice/internal/lab"
)

// Measure needs Linux: the lab is made of its network namespaces.
func Measure(context.Context, RunConfig) (*result.Report, error) {
	return nil, &lab.MissingError{What: "network namespaces, which only Linux has"}
}
