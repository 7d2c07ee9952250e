package softirq

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"sluice/internal/bench/bpf"
	"sluice/internal/lab"
)

// Watch measures softirqs in the time of a process.
type Watch struct {
	objects bpf.SoftirqsObjects
	links   []link.Link
}

// Begin begins to measure. A *[lab.MissingError] means that this machine cannot do it.
func Begin(pid int) (_ *Watch, err error) {
	spec, err := bpf.LoadSoftirqs()
	if err != nil {
		return nil, err
	}
	if err := bpf.SetProcess(spec, pid); err != nil {
		return nil, err
	}
	w := new(Watch)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if err := spec.LoadAndAssign(&w.objects, nil); err != nil {
		return w, &lab.MissingError{What: "eBPF at tracepoints", Err: err}
	}
	return w, errors.Join(
		w.attach("softirq_exit", w.objects.SoftirqExit), // first, so that it sees each end
		w.attach("softirq_entry", w.objects.SoftirqEntry))
}

func (w *Watch) attach(tracepoint string, program *ebpf.Program) error {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: program})
	if err != nil {
		return &lab.MissingError{What: "the raw tracepoint " + tracepoint, Err: err}
	}
	w.links = append(w.links, l)
	return nil
}

// Total returns for how long softirqs have run in the time of the process since Begin.
func (w *Watch) Total() (sum time.Duration, err error) {
	var perCPU []bpf.SoftirqsSoftirqTime
	if err := w.objects.Softirqs.Lookup(uint32(0), &perCPU); err != nil {
		return 0, err
	}
	for _, s := range perCPU {
		sum += time.Duration(s.Total)
	}
	return sum, nil
}

// Close ends the measurement.
func (w *Watch) Close() error {
	var errs []error
	for _, l := range w.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, w.objects.Close())...)
}
