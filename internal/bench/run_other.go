//go:build !linux

package bench

import (
	"context"

	"sluice/internal/lab"
)

// Measure measures the systems. It needs Linux: the lab is made of its network namespaces.
func Measure(context.Context, Config) (*Report, error) {
	return nil, &lab.MissingError{What: "network namespaces, which only Linux has"}
}
