package softirq

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"sluice/lab"
	"sluice/lab/bench/bpf"
)

// Watch measures softirqs.
type Watch struct {
	objects bpf.SoftirqsObjects
	links   []link.Link
}

// Begin begins to measure. The time of network softirqs before they have a packet belongs to the role drivers. A
// *[lab.MissingError] means that this machine cannot do it.
func Begin(drivers Role) (_ *Watch, err error) {
	spec, err := bpf.LoadSoftirqs()
	if err != nil {
		return nil, err
	}
	err = errors.Join(bpf.SetNamespace(spec), spec.Variables[bpf.SoftirqsVarDrivers].Set(uint32(drivers)))
	if err != nil {
		return nil, err
	}
	w := new(Watch)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if err := spec.LoadAndAssign(&w.objects, nil); err != nil {
		return w, &lab.MissingError{What: "eBPF at tracepoints (CONFIG_DEBUG_INFO_BTF)", Err: err}
	}
	return w, errors.Join(
		w.attach("softirq_exit", w.objects.SoftirqExit), // first, so that it sees each end
		w.attachReceive(),
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

func (w *Watch) attachReceive() error {
	l, err := link.AttachTracing(link.TracingOptions{Program: w.objects.Receive})
	if err != nil {
		return &lab.MissingError{What: "the tracepoint netif_receive_skb", Err: err}
	}
	w.links = append(w.links, l)
	return nil
}

// AddProcess gives a process a role.
func (w *Watch) AddProcess(pid int, r Role) error {
	return w.objects.Processes.Put(uint32(pid), uint32(r))
}

// AddNamespace gives the devices of a network namespace a role. The namespace has an inode of this number.
func (w *Watch) AddNamespace(inode uint64, r Role) error {
	return w.objects.Namespaces.Put(uint32(inode), uint32(r))
}

// Read returns for how long softirqs have run since Begin.
func (w *Watch) Read() (sum Times, err error) {
	var perCPU []bpf.SoftirqsSoftirqTimes
	if err := w.objects.Softirqs.Lookup(uint32(0), &perCPU); err != nil {
		return sum, err
	}
	for _, s := range perCPU {
		for r := range roles {
			sum.Devices[r] += time.Duration(s.Devices[r])
			sum.Processes[r] += time.Duration(s.Processes[r])
		}
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
