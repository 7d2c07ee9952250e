package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"sluice/fastpath/bpf"
)

const (
	promises    = uint32(bpf.IngressJobLimitsPROMISES)
	allPromises = promises // the element of the array promises that is about all tracks
	jobsPerRing = uint32(bpf.IngressJobLimitsJOBS_PER_RING)

	defaultChunk = 16
	// jobLifetime is how long user space waits for the workers, and after how long they give up a job. If they begin
	// one after half of it, they have too much to do, and get no jobs for a rest: user space, which sends several
	// packets of a subscriber with one call, is no slower.
	jobLifetime = 80 * time.Millisecond
	rest        = 250 * time.Millisecond
)

// workers make the copies that are beyond the budget of one packet, see bpf/fanout/job.h.
type workers struct {
	kernel    *kernel
	chunk     uint32 // copies that a run makes
	lifetime  time.Duration
	list      []*worker
	done      sync.WaitGroup
	given     []bpf.Promise // shared with the programs
	busyUntil []uint64      // one element, shared with the programs
	kept      [promises + 1][MaxWorkers]atomic.Uint64
	dead      [MaxWorkers]atomic.Bool // takes no more jobs
	runs      atomic.Uint64           // each makes a chunk of copies at most
	report    func(operation string, err error)

	mu      sync.Mutex
	changed chan struct{} // closed when more jobs are done; nil if nobody waits
}

// newWorkers makes workers that do not work yet.
func newWorkers(k *kernel, s *Settings, ring *ebpf.MapSpec) (*workers, error) {
	w := &workers{
		kernel: k, chunk: uint32(cmp.Or(s.chunk, defaultChunk)), lifetime: cmp.Or(s.jobLifetime, jobLifetime),
		report: func(string, error) {},
	}
	for i := range s.Workers {
		one, err := newWorker(w, i, ring)
		if err != nil {
			return w, fmt.Errorf("worker %d: %w", i, err)
		}
		w.list = append(w.list, one)
	}
	return w, nil
}

// start starts the workers, which run programs in the network namespace of the caller.
func (w *workers) start() error {
	if len(w.list) == 0 {
		return nil
	}
	namespace, err := os.Open(threadNamespace)
	if err != nil {
		return err
	}
	ready := make(chan error)
	for _, one := range w.list {
		w.done.Go(func() { one.run(namespace, ready) })
		err = errors.Join(err, <-ready)
	}
	return errors.Join(err, namespace.Close())
}

// close stops the workers, and waits for that.
func (w *workers) close() error {
	var errs []error
	for _, one := range w.list {
		errs = append(errs, one.close())
	}
	w.done.Wait()
	for _, one := range w.list {
		errs = append(errs, one.ring.close())
	}
	w.list = nil
	return errors.Join(errs...)
}

// await waits until the jobs are done that an element of the array promises counts now, or a time has come, and reports
// which.
func (w *workers) await(element uint32, until time.Time) bool {
	var given [MaxWorkers]uint64
	for i := range w.list {
		given[i] = atomic.LoadUint64(&w.given[element].Given[i])
	}
	if w.areDone(element, &given) {
		return true
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		changed := w.onChange() // before the look
		if w.areDone(element, &given) {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

func (w *workers) areDone(element uint32, given *[MaxWorkers]uint64) bool {
	for i := range w.list {
		if w.kept[element][i].Load() < given[i] && !w.dead[i].Load() {
			return false
		}
	}
	return true
}

// onChange returns a channel that is closed when more jobs are done.
func (w *workers) onChange() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

func (w *workers) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// relieve lets user space send for a while.
func (w *workers) relieve() {
	atomic.StoreUint64(&w.busyUntil[0], monotonic()+uint64(rest))
}
