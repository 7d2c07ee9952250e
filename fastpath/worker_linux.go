package fastpath

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"sluice/fastpath/bpf"
)

// maxBurst is how many jobs a worker works on at a time. It makes the first chunk of all of them, then the next: so the
// last subscriber gets the first packet of a video frame later, and the last one earlier.
const maxBurst = 32

// worker is a thread that has a share of the subscriptions of each track.
type worker struct {
	all    *workers
	index  int
	ring   *ebpf.Map
	reader *ringbuf.Reader
	burst  []ringbuf.Record // their memory is used again
}

func newWorker(all *workers, index int, spec *ebpf.MapSpec) (*worker, error) {
	ring, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, err
	}
	w := &worker{all: all, index: index, ring: ring, burst: make([]ringbuf.Record, maxBurst)}
	if w.reader, err = ringbuf.NewReader(ring); err == nil {
		err = all.kernel.ingress.JobRings.Put(uint32(index), ring)
	}
	if err != nil {
		ring.Close()
		return nil, err
	}
	return w, nil
}

// run works until the reader is closed. The thread, which ends with it, sleeps while there is no job: the kernel wakes
// it for the first one of a burst.
func (w *worker) run(namespace *os.File, cpu int, ready chan<- error) {
	runtime.LockOSThread()
	defer w.leave()
	err := w.settle(namespace, cpu)
	ready <- err
	for err == nil {
		var jobs []ringbuf.Record
		if jobs, err = w.take(); err == nil {
			w.do(jobs)
		}
	}
}

// leave tells that the worker does no more jobs.
func (w *worker) leave() {
	w.all.dead[w.index].Store(true)
	w.all.tell()
}

// settle binds the thread to a CPU and to a network namespace.
func (w *worker) settle(namespace *os.File, cpu int) error {
	if err := enterNamespace(namespace); err != nil {
		return fmt.Errorf("worker %d: enter the devices' network namespace: %w", w.index, err)
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("worker %d: bind the thread to CPU %d: %w", w.index, cpu, err)
	}
	return nil
}

// take waits for a job, and takes what has come after it.
func (w *worker) take() ([]ringbuf.Record, error) {
	for i := range w.burst {
		r := &w.burst[i]
		if err := w.reader.ReadInto(r); err != nil {
			return nil, err
		}
		if r.Remaining == 0 {
			return w.burst[:i+1], nil
		}
	}
	return w.burst, nil
}

func jobOf(r *ringbuf.Record) *bpf.Job {
	return (*bpf.Job)(unsafe.Pointer(unsafe.SliceData(r.RawSample)))
}

// do makes the worker's copies of some frames.
func (w *worker) do(jobs []ringbuf.Record) {
	if monotonic()-jobOf(&jobs[0]).Since > uint64(w.all.lifetime/2) {
		w.all.relieve()
	}
	for more := true; more; {
		more = false
		for i := range jobs {
			more = w.continueJob(&jobs[i]) || more
		}
	}
	for i := range jobs {
		w.finish(jobOf(&jobs[i]))
	}
	w.all.tell()
}

// continueJob makes some copies, and reports whether others are left.
func (w *worker) continueJob(r *ringbuf.Record) (more bool) {
	j := jobOf(r)
	if j.Position >= j.Count {
		return false
	}
	goOn, err := w.all.kernel.ingress.ContinueFanOut.Run(&ebpf.RunOptions{Data: r.RawSample})
	if err != nil || goOn == 0 {
		w.all.report("continue a fan-out", err)
		j.Position = j.Count
		return false
	}
	j.Position += w.all.chunk * uint32(len(w.all.list))
	return j.Position < j.Count
}

// finish counts a job as done.
func (w *worker) finish(j *bpf.Job) {
	w.all.kernel.shares.release(j.Publisher, shareJobs, false)
	w.all.kept[j.Track%promises][w.index].Add(1)
	w.all.kept[allPromises][w.index].Add(1)
}

// threadNamespace is the network namespace of the thread that opens it.
const threadNamespace = "/proc/thread-self/ns/net"

// enterNamespace brings the thread into a network namespace, unless it is there: that needs CAP_SYS_ADMIN.
func enterNamespace(namespace *os.File) error {
	own, err := os.Stat(threadNamespace)
	if err != nil {
		return err
	}
	if wanted, err := namespace.Stat(); err != nil || os.SameFile(own, wanted) {
		return err
	}
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
}

// allowedCPUs returns the CPUs that this process may use.
func allowedCPUs() (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("the CPUs that the process may use: %w", err)
	}
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}
