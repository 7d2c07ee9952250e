//go:build !linux

package rtt

import (
	"context"
	"errors"
)

// A Monitor measures the traffic of some interfaces. It needs Linux.
type Monitor struct{}

// New fails: there is no eBPF here.
func New(Config) (*Monitor, error) {
	return nil, errors.New("measuring RTTs needs Linux: its eBPF programs run in that kernel")
}

// Run does nothing.
func (*Monitor) Run(context.Context) error { return nil }

// Close does nothing.
func (*Monitor) Close() error { return nil }
