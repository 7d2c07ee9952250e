package syscalls

import (
	"errors"
	"time"

	"github.com/cilium/ebpf/link"

	"sluice/lab"
	"sluice/lab/bench/bpf"
)

// Counter counts the system calls of a process at the raw tracepoints sys_enter and sys_exit.
type Counter struct {
	objects bpf.SyscallsObjects
	links   []link.Link
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
	for _, o := range []link.RawTracepointOptions{
		{Name: "sys_enter", Program: c.objects.SysEnter}, {Name: "sys_exit", Program: c.objects.SysExit},
	} {
		l, err := link.AttachRawTracepoint(o)
		if err != nil {
			return nil, errors.Join(&lab.MissingError{What: "the raw tracepoint " + o.Name, Err: err}, c.Close())
		}
		c.links = append(c.links, l)
	}
	return c, nil
}

// Stop ends the counting and returns the calls by name.
func (c *Counter) Stop() (map[string]Calls, error) {
	if err := c.detach(); err != nil {
		return nil, err
	}
	total := make(map[string]Calls)
	var perCPU []bpf.SyscallsUsage
	for number := range c.objects.Calls.MaxEntries() {
		if err := c.objects.Calls.Lookup(number, &perCPU); err != nil {
			return nil, err
		}
		var calls Calls
		for _, u := range perCPU {
			calls.Count += u.Count
			calls.Time += time.Duration(u.Ns)
		}
		if calls.Count > 0 {
			total[name(number)] = calls
		}
	}
	return total, nil
}

// Close releases the counter.
func (c *Counter) Close() error { return errors.Join(c.detach(), c.objects.Close()) }

// detach takes the programs from the tracepoints.
func (c *Counter) detach() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	c.links = nil
	return errors.Join(errs...)
}
