package kernel

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/rtt/bpf"
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

// expiries are when an entry of each table can time out next, at the earliest.
type expiries = [bpf.MonitorExpiringEXPIRING_COUNT]uint64

// tables are the tables whose entries time out, and the programs that remove these entries.
var tables = [len(expiries{})]struct{ table, cleanup string }{
	bpf.MonitorExpiringEXPIRING_FLOWS:   {bpf.MonitorMapFlows, bpf.MonitorProgExpireFlows},
	bpf.MonitorExpiringEXPIRING_QUERIES: {bpf.MonitorMapQueries, bpf.MonitorProgExpireQueries},
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
	due := k.Variables[bpf.MonitorVarNextExpiry]
	for table, iter := range k.cleanups {
		var next expiries
		if err := due.Get(&next); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		if next[table]-now <= uint64(longestTimeout) {
			continue
		}
		next[table] = 0
		if err := errors.Join(due.Set(next), run(iter)); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return nil
}

// run lets an iterator see all entries.
func run(iter *link.Iter) error {
	entries, err := iter.Open()
	if err != nil {
		return err
	}
	defer entries.Close()
	_, err = io.Copy(io.Discard, entries)
	return err
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
