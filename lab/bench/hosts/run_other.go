//go:build !linux

package hosts

import (
	"context"

	"sluice/lab"
	"sluice/lab/bench/result"
)

var errLinux = &lab.MissingError{What: "the programs for Linux, which a bench copies to its machines"}

// Run needs Linux: the machines run the same program.
func Run(context.Context, Config) (*result.Report, error) { return nil, errLinux }

// Describe needs Linux.
func Describe(string) (result.Host, error) { return result.Host{}, errLinux }
