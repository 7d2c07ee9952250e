package fastpath

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/fastpath/bpf"
)

const (
	// maxBurst is how many jobs a worker works on at a time.
	maxBurst = 32
)

// worker is a goroutine that has a share of the players of each media.
type worker struct {
	all     *workers
	index   int
	ring    *jobRing
	file    *os.File // the ring's, to wait for jobs
	waiting syscall.RawConn
	burst   [][]byte // their memory is used again
}

func newWorker(all *workers, index int, spec *ebpf.MapSpec) (*worker, error) {
	ring, err := newJobRing(spec)
	if err != nil {
		return nil, err
	}
	w := &worker{all: all, index: index, ring: ring}
	if err = w.openFile(); err == nil {
		err = all.rtp.objects.JobRings.Put(uint32(index), ring.ring)
	}
	if err != nil {
		return nil, errors.Join(err, w.close(), ring.close())
	}
	return w, nil
}

// openFile makes a file with which Go's poller waits for the ring.
func (w *worker) openFile() error {
	fd, err := unix.FcntlInt(uintptr(w.ring.ring.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fd))
	}
	w.file = os.NewFile(uintptr(fd), "ring of jobs")
	w.waiting, err = w.file.SyscallConn()
	return err
}

// close has run end.
func (w *worker) close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// run works until the worker is closed.
func (w *worker) run(namespace *os.File, ready chan<- error) {
	defer w.leave()
	err := enterNamespace(namespace)
	ready <- err
	for err == nil {
		err = w.waiting.Read(func(uintptr) bool { // waits, and tries again, while it is false
			return w.work()
		})
	}
}

// leave tells that the worker does no more jobs.
func (w *worker) leave() {
	w.all.dead[w.index].Store(true)
	w.all.progress.raise()
}

// work takes jobs and does them, and reports whether there were any.
func (w *worker) work() bool {
	jobs := w.take()
	if len(jobs) == 0 {
		return false
	}
	w.do(jobs)
	return true
}

// take takes jobs out of the ring.
func (w *worker) take() [][]byte {
	n := 0
	w.ring.take(maxBurst, func(job []byte) {
		if n == len(w.burst) {
			w.burst = append(w.burst, nil)
		}
		w.burst[n] = append(w.burst[n][:0], job...)
		n++
	})
	return w.burst[:n]
}

func jobOf(job []byte) *bpf.Job {
	return (*bpf.Job)(unsafe.Pointer(unsafe.SliceData(job)))
}

// do makes the worker's copies of some frames. All get the first packet of a video frame before the others are begun.
func (w *worker) do(jobs [][]byte) {
	if precedes(jobOf(jobs[0]).Since, monotonic()-uint64(w.all.lifetime/2)) {
		w.all.relieve()
	}
	w.makeCopies(jobs[:1])
	w.makeCopies(jobs[1:])
	for _, job := range jobs {
		w.finish(jobOf(job))
	}
	w.all.stuck[w.index].Store(false)
	w.all.progress.raise()
}

// makeCopies makes the first chunk of all jobs, then the next.
func (w *worker) makeCopies(jobs [][]byte) {
	for more := true; more; {
		more = false
		for _, job := range jobs {
			more = w.continueJob(job) || more
			runtime.Gosched() // the scheduler was not told that the run was a system call
		}
	}
}

// continueJob makes some copies, and reports whether others are left.
func (w *worker) continueJob(job []byte) (more bool) {
	j := jobOf(job)
	if j.Position >= j.Count {
		return false
	}
	w.all.runs.Add(1)
	goOn, err := w.all.rtp.continueJob(job)
	if err != nil || goOn == 0 {
		w.all.rtp.kernel.report("continue a fan-out", err)
		j.Position = j.Count
		return false
	}
	j.Position += w.all.chunk * uint32(len(w.all.list))
	return j.Position < j.Count
}

// finish counts a job as done.
func (w *worker) finish(j *bpf.Job) {
	w.all.rtp.shares.releaseJob(j)
	w.all.kept[w.all.counter(j.Media%promises, w.index)].Add(1)
	w.all.kept[w.all.counter(allPromises, w.index)].Add(1)
}

// threadNamespace is the network namespace of the thread that opens it. A goroutine without a thread of its own is in
// the process's namespace.
const threadNamespace = "/proc/thread-self/ns/net"

// enterNamespace brings the goroutine into a network namespace. If that is not the process's, the goroutine gets a
// thread of its own, which ends with it; that needs CAP_SYS_ADMIN.
func enterNamespace(namespace *os.File) error {
	own, err := os.Stat(threadNamespace)
	if err != nil {
		return err
	}
	if wanted, err := namespace.Stat(); err != nil || os.SameFile(own, wanted) {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the devices' network namespace: %w", err)
	}
	return nil
}
