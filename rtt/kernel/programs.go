package kernel

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/rtt/bpf"
)

// Programs are loaded programs and their tables.
type Programs struct{ *bpf.Monitor }

// Load loads the named programs, which see packets, and the programs that clean the tables up.
func Load(s bpf.MonitorSettings, limits bpf.Limits, programs []string) (*Programs, error) {
	m, err := bpf.Load(s, limits, slices.Concat(programs, cleanups[:], []string{bpf.MonitorProgFlush})...)
	if err != nil {
		return nil, err
	}
	return &Programs{m}, nil
}

// expiries are when an entry of each table can time out next, at the earliest.
type expiries = [bpf.MonitorExpiringEXPIRING_COUNT]uint64

// cleanups are the programs that remove entries that have timed out.
var cleanups = [len(expiries{})]string{
	bpf.MonitorExpiringEXPIRING_FLOWS:   bpf.MonitorProgExpireFlows,
	bpf.MonitorExpiringEXPIRING_QUERIES: bpf.MonitorProgExpireQueries,
}

// Due reports whether entries of tables can have timed out by now, a time of the programs' clock.
func (k *Programs) Due(now uint64) (bool, error) {
	var next expiries
	err := k.Variables[bpf.MonitorVarNextExpiry].Get(&next)
	return now > slices.Min(next[:]), err
}

// longestTimeout is a TCP flow's (bpf/expire.h). If an entry can time out later only, the clock was set back.
const longestTimeout = 5 * time.Minute

// CleanUp removes entries from the tables that have timed out by now, a time of the programs' clock. A look at all
// entries takes milliseconds, so a table is left alone until one of its entries can have timed out.
func (k *Programs) CleanUp(now uint64) error {
	for table, program := range cleanups {
		var next expiries
		if err := k.Variables[bpf.MonitorVarNextExpiry].Get(&next); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		if next[table]-now <= uint64(longestTimeout) {
			continue
		}
		if _, err := k.Programs[program].Run(new(ebpf.RunOptions)); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return nil
}

const runOnCPU = 1 // BPF_F_TEST_RUN_ON_CPU

// errCPUOffline is the error of running a program on a CPU that is possible, but not present.
const errCPUOffline = unix.ENXIO

// Flush makes all CPUs hand over the events that they have collected. It interrupts none if none has any.
func (k *Programs) Flush() error {
	var waiting uint32
	if err := k.Variables[bpf.MonitorVarWaitingBatches].Get(&waiting); err != nil || waiting == 0 {
		return err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for cpu := range cpus {
		_, err := k.Programs[bpf.MonitorProgFlush].Run(&ebpf.RunOptions{CPU: uint32(cpu), Flags: runOnCPU})
		if err != nil && !errors.Is(err, errCPUOffline) {
			return fmt.Errorf("flush events: %w", err)
		}
	}
	return nil
}
