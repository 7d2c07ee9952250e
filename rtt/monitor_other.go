//go:build !linux

package rtt

import (
	"context"
	"errors"
	"io"

	"sluice/rtt/groups"
	"sluice/rtt/report"
)

var errNoBPF = errors.New("measuring RTTs needs Linux: its eBPF programs run in that kernel")

// A Monitor measures the traffic of some interfaces. It needs Linux.
type Monitor struct{}

// New fails: there is no eBPF here.
func New(MonitorConfig) (*Monitor, error) {
	return nil, errNoBPF
}

// Run does nothing.
func (*Monitor) Run(context.Context) error { return nil }

// Counters reads nothing.
func (*Monitor) Counters() (report.Counters, error) { return report.Counters{}, errNoBPF }

// Regroup does nothing.
func (*Monitor) Regroup(groups.Table) error { return nil }

// HasFilters returns false.
func (*Monitor) HasFilters() bool { return false }

// Close does nothing.
func (*Monitor) Close() error { return nil }

// Replay fails: there is no eBPF here.
func Replay(context.Context, MonitorConfig, io.Reader) (Replayed, error) {
	return Replayed{}, errNoBPF
}

// Flows reads nothing.
func (*Monitor) Flows() ([]report.FlowState, error) { return nil, errNoBPF }

// Memory fails: there is no eBPF here.
func Memory(MonitorConfig) ([]report.TableMemory, error) { return nil, errNoBPF }
