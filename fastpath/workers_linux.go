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
	promises    = uint32(bpf.RTPJobLimitsPROMISES)
	allPromises = promises // the element of the array promises that is about all medias
	jobsPerRing = uint32(bpf.RTPJobLimitsJOBS_PER_RING)

	defaultChunk = 16
	// jobLifetime is how long user space waits for the workers, and after how long they give up a job. If they begin
	// one after half of it, they have too much to do, and get no jobs for a rest: user space, which sends several
	// packets of a subscriber with one call, is no slower.
	jobLifetime = 80 * time.Millisecond
	rest        = 250 * time.Millisecond
)

// workers make the copies of RTP packets that are beyond the budget of one packet, see bpf/fanout/job.h.
type workers struct {
	rtp       *rtp
	chunk     uint32 // copies that a run makes
	lifetime  time.Duration
	list      []*worker
	done      sync.WaitGroup
	busyUntil []uint64        // one element, shared with the programs
	given     []uint64        // jobs, by element and worker; shared with the programs
	kept      []atomic.Uint64 // jobs that are done, at the same indices
	dead      []atomic.Bool   // by worker: takes no more jobs
	stuck     []atomic.Bool   // by worker: was too late, and has done nothing since
	runs      atomic.Uint64   // each makes a chunk of copies at most
	progress  signal          // more jobs are done
}

func newWorkers(r *rtp, s *Settings) *workers {
	return &workers{
		rtp: r, chunk: uint32(cmp.Or(s.chunk, defaultChunk)), lifetime: cmp.Or(s.jobLifetime, jobLifetime),
		kept: make([]atomic.Uint64, int(promises+1)*s.Workers),
		dead: make([]atomic.Bool, s.Workers), stuck: make([]atomic.Bool, s.Workers),
	}
}

// counter is the index of the counter of a worker's jobs in an element of the array promises.
func (w *workers) counter(element uint32, worker int) int { return int(element)*len(w.dead) + worker }

// hire makes n workers that do not work yet.
func (w *workers) hire(n int, ring *ebpf.MapSpec) error {
	for i := range n {
		one, err := newWorker(w, i, ring)
		if err != nil {
			return fmt.Errorf("worker %d: %w", i, err)
		}
		w.list = append(w.list, one)
	}
	return nil
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

// awaitCopies waits until the jobs are done that an element of the array promises counts now, or a time has come. It
// does not wait for workers that were too late before and have done nothing since: they are stuck. While one is, no
// jobs are given, or only now and then.
func (w *workers) awaitCopies(element uint32, until time.Time) {
	late := w.await(element, until, func(i int) bool { return w.stuck[i].Load() })
	for _, i := range late {
		w.stuck[i].Store(true)
	}
	if len(late) > 0 {
		w.relieve()
	}
}

// awaitUnused returns when no worker uses anything that had ended before the call.
func (w *workers) awaitUnused() {
	never := func(int) bool { return false }
	if late := w.await(allPromises, time.Now().Add(w.lifetime), never); len(late) > 0 {
		awaitGracePeriod() // a program that begins a job which is so old does nothing, see continue_packet
	}
}

// await waits until the jobs are done that an element of the array promises counts now, or a time has come. It returns
// the workers that were too late, without the skipped ones.
func (w *workers) await(element uint32, until time.Time, skip func(worker int) bool) (late []int) {
	given := make([]uint64, len(w.list))
	for i := range given {
		given[i] = atomic.LoadUint64(&w.given[w.counter(element, i)])
	}
	look := func() (late []int) {
		for i := range w.list {
			if w.kept[w.counter(element, i)].Load() < given[i] && !w.dead[i].Load() && !skip(i) {
				late = append(late, i)
			}
		}
		return late
	}
	if late = look(); len(late) == 0 {
		return nil
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		progress := w.progress.next() // before the look
		if late = look(); len(late) == 0 {
			return nil
		}
		select {
		case <-progress:
		case <-timer.C:
			return late
		}
	}
}

// relieve lets user space send for a while.
func (w *workers) relieve() {
	atomic.StoreUint64(&w.busyUntil[0], monotonic()+uint64(rest))
}
