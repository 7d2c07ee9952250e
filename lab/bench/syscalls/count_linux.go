package syscalls

import (
	"errors"

	"github.com/cilium/ebpf/link"

	"sluice/lab"
	"sluice/lab/bench/bpf"
)

// Counter counts the system calls of a process at the raw tracepoint sys_enter.
type Counter struct {
	objects bpf.SyscallsObjects
	link    link.Link
}

// Count starts to count the system calls of a process. A *[lab.MissingError] means that this machine cannot do it.
func Count(pid int) (*Counter, error) {
	spec, err := bpf.LoadSyscalls()
	if err != nil {
		return nil, err
	}
	err = errors.Join(bpf.SetNamespace(spec), spec.Variables[bpf.SyscallsVarProcess].Set(uint32(pid)))
	if err != nil {
		return nil, err
	}
	c := new(Counter)
	if err := spec.LoadAndAssign(&c.objects, nil); err != nil {
		return nil, &lab.MissingError{What: "eBPF at tracepoints", Err: err}
	}
	c.link, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: c.objects.SysEnter})
	if err != nil {
		return nil, errors.Join(&lab.MissingError{What: "the raw tracepoint sys_enter", Err: err}, c.objects.Close())
	}
	return c, nil
}

// Stop ends the counting and returns the calls by name.
func (c *Counter) Stop() (map[string]uint64, error) {
	if err := c.link.Close(); err != nil {
		return nil, err
	}
	total := make(map[string]uint64)
	var perCPU []uint64
	for number := range c.objects.Calls.MaxEntries() {
		if err := c.objects.Calls.Lookup(number, &perCPU); err != nil {
			return nil, err
		}
		for _, n := range perCPU {
			if n > 0 {
				total[name(number)] += n
			}
		}
	}
	return total, nil
}

// Close releases the counter.
func (c *Counter) Close() error { return errors.Join(c.link.Close(), c.objects.Close()) }
