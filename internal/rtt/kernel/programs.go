package kernel

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/rtt/bpf"
)

// Programs are loaded programs and their tables.
type Programs struct {
	*bpf.Monitor
	cleanups []*link.Iter
}

// Load loads the named programs, which see packets, and the programs that clean the tables up.
func Load(s bpf.MonitorSettings, limits bpf.Limits, programs []string) (*Programs, error) {
	programs = append(programs, bpf.MonitorProgFlush)
	for _, t := range tables {
		programs = append(programs, t.cleanup)
	}
	m, err := bpf.Load(s, limits, programs...)
	if err != nil {
		return nil, err
	}
	k := &Programs{Monitor: m}
	for _, t := range tables {
		if err := k.addCleanup(t.cleanup, t.table); err != nil {
			k.Close()
			return nil, err
		}
	}
	return k, nil
}

// tables are the tables whose entries time out, and the programs that remove these entries.
var tables = []struct{ table, cleanup string }{
	{bpf.MonitorMapFlows, bpf.MonitorProgExpireFlows},
	{bpf.MonitorMapQueries, bpf.MonitorProgExpireQueries},
}

func (k *Programs) addCleanup(program, table string) error {
	iter, err := link.AttachIter(link.IterOptions{Program: k.Programs[program], Map: k.Maps[table]})
	if err != nil {
		return fmt.Errorf("attach %s: %w", program, err)
	}
	k.cleanups = append(k.cleanups, iter)
	return nil
}

// Close frees the programs and tables.
func (k *Programs) Close() {
	for _, iter := range k.cleanups {
		iter.Close()
	}
	k.Monitor.Close()
}

// CleanUp removes entries that have timed out from the tables.
func (k *Programs) CleanUp() error {
	for _, iter := range k.cleanups {
		run, err := iter.Open()
		if err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		_, err = io.Copy(io.Discard, run)
		run.Close()
		if err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return nil
}

const runOnCPU = 1 // BPF_F_TEST_RUN_ON_CPU

// errCPUOffline is the error of running a program on a CPU that is possible, but not present.
const errCPUOffline = unix.ENXIO

// Flush makes all CPUs hand over the events that they have collected.
func (k *Programs) Flush() error {
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
