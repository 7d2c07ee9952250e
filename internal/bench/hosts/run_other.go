//go:build !linux

package hosts

import (
	"context"
	"io"

	"sluice/internal/bench"
	"sluice/internal/bench/result"
	"sluice/internal/lab"
)

// Config describes a bench on machines of their own.
type Config struct {
	Bench    bench.RunConfig
	Hosts    Hosts
	Up, Down string
	SSH      string
	Output   io.Writer
}

var errLinux = &lab.MissingError{What: "the programs for Linux, which a bench copies to its machines"}

// Run needs Linux: the machines run the same program.
func Run(context.Context, Config) (*result.Report, error) { return nil, errLinux }

// Describe needs Linux.
func Describe(string) (result.Host, error) { return result.Host{}, errLinux }
