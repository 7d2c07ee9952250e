//go:build !linux

package bench

import (
	"context"

	"sluice/lab"
	"sluice/lab/bench/result"
)

// Measure needs Linux: the lab is made of its network namespaces.
func Measure(context.Context, RunConfig) (*result.Report, error) {
	return nil, &lab.MissingError{What: "network namespaces, which only Linux has"}
}
