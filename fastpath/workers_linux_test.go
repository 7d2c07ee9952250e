package fastpath

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/lab"
)

// withWorkers runs tests with settings by which workers make all but a few copies, two at a time.
func withWorkers(t *testing.T, maxCopies int, tests map[string]func(*testing.T)) {
	variant = func(s *Settings) {
		s.MaxCopies, s.Workers, s.chunk = maxCopies, 2, 2
		s.jobLifetime = time.Minute // however busy the machine is
	}
	defer func() { variant = func(*Settings) {} }()
	for name, test := range tests {
		t.Run(name, test)
	}
}

// TestWorkersDoTheSame expects copies that workers make to be like those of server_ingress.
func TestWorkersDoTheSame(t *testing.T) {
	withWorkers(t, 1, map[string]func(*testing.T){
		"Forward": TestForward, "Declines": TestDeclines,
		"BytesAreClaimedOnce": TestBytesAreClaimedOnce, "KeyPhases": TestKeyPhases, "Forgeries": TestForgeries,
		"LongList": TestLongList, "Discarded": TestDiscarded, "Replays": TestReplays,
		"HostileFrames": TestHostileFrames, "SlotsAreFreedOnce": TestSlotsAreFreedOnce, "SealAhead": TestSealAhead,
		"RTPOnce": TestRTPOnce,
	})
	withWorkers(t, 2, map[string]func(*testing.T){"ManyStreamsInOnePacket": TestManyStreamsInOnePacket})
}

// driven is a rig whose workers' threads have ended: the test does what they do, when it wants.
type driven struct {
	*rig
	worker *worker
}

// newDriven has one worker, which serves all subscribers but the first, two at a time.
func newDriven(t *testing.T, subscribers int) *driven {
	r := newRigFor(t, lab.Topology{Subscribers: 2}, false, Settings{MaxCopies: 1, Workers: 1, chunk: 2,
		jobLifetime: time.Minute})
	r.crowd(subscribers)
	r.subscribeAll()
	return &driven{r, stopWorker(t, r.kernel)}
}

// stopWorker ends the thread of the only worker. Others wait for its jobs as if it worked.
func stopWorker(t *testing.T, k *kernel) *worker {
	w := k.workers.list[0]
	require.NoError(t, w.close())
	w.file = nil
	k.workers.done.Wait()
	require.True(t, k.workers.dead[0].Swap(false))
	t.Cleanup(func() { k.workers.dead[0].Store(true) })
	return w
}

// give publishes frames in one packet, and leaves the jobs in the ring.
func (d *driven) give(frames ...[]byte) {
	d.workers.dead[0].Store(true) // so that nobody waits
	d.run(frames...)
	d.workers.dead[0].Store(false)
}

// drive runs a function where the worker's programs can run.
func (d *driven) drive(f func()) {
	require.NoError(d.t, d.lab.Relay.Do(func() error {
		f()
		return nil
	}))
}

// take takes the jobs out of the ring.
func (d *driven) take() [][]byte { return d.worker.take() }

func (d *driven) areDone(element uint32) bool {
	return len(d.workers.await(element, time.Time{}, waitsForAll)) == 0
}

func waitsForAll(int) bool { return false }

// awaitAll waits for all workers to do all jobs, and returns those that were too late.
func (w *workers) awaitAll(limit time.Duration) []int {
	return w.await(allPromises, time.Now().Add(limit), waitsForAll)
}

// subgroupBegins is a frame with the first bytes of a stream.
func subgroupBegins(streamID uint64) []byte {
	return stream(streamID, 0, 0, append(subgroupHeader(77, streamID, 0, 9), "object"...))
}

// TestJobs follows jobs from the packet to their end.
func TestJobs(t *testing.T) {
	d := newDriven(t, 6)
	d.give(subgroupBegins(3), subgroupBegins(7))
	require.EqualValues(t, 2, d.counts()["copy_sent"], "to the first subscriber")
	require.False(t, d.areDone(allPromises), "what they use must not be used for anything else")
	require.False(t, d.areDone(5%promises), "user space waits")
	require.True(t, d.areDone(6%promises), "but not for those of other tracks")
	require.EqualValues(t, 2, d.shares.own[publisherIndex].Entries[shareJobs])

	d.drive(func() {
		jobs := d.take()
		require.Len(t, jobs, 2)
		require.True(t, d.worker.continueJob(jobs[0]))
		require.EqualValues(t, 4, d.counts()["copy_sent"])
		require.NoError(t, d.SetTrack(5, 128, nil), "jobs keep their list")
		d.worker.do(jobs)
	})
	for _, s := range d.subscribers {
		for _, id := range []uint64{3, 7} {
			got := d.receive(s)
			require.Equal(t, concat(0x10, vi64(1000+uint64(s.index)), vi64(id), 9, "object"), got.data)
		}
	}
	require.Equal(t, map[string]uint64{"packet_opened": 1, "frame_forwarded": 2, "copy_sent": 12}, d.counts())
	require.True(t, d.areDone(allPromises))
	require.True(t, d.areDone(5%promises))
	require.Zero(t, d.shares.own[publisherIndex].Entries[shareJobs])
}

// TestJobsEnd has jobs that come too late: for the time that user space waits, or for the stream.
func TestJobsEnd(t *testing.T) {
	d := newDriven(t, 3)
	d.give(subgroupBegins(3))
	d.drive(func() {
		jobs := d.take()
		jobOf(jobs[0]).Since += uint64(time.Hour) // its age, which has no sign, is endless
		d.worker.do(jobs)
	})
	require.Equal(t, map[string]uint64{
		"packet_opened": 1, "frame_forwarded": 1, "copy_sent": 1, "job_late": 1,
	}, d.counts())
	require.True(t, d.areDone(allPromises))

	d.give(subgroupBegins(7)) // the worker has had too much to do
	require.EqualValues(t, 1, d.counts()["job_busy"])
	require.True(t, d.areDone(allPromises))
	d.workers.busyUntil[0] = 0

	for _, end := range []func(key bpf.StreamKey) error{
		func(key bpf.StreamKey) error { return d.ingress.Ended.Put(key, uint32(0)) },
		func(key bpf.StreamKey) error { return d.ingress.Subgroups.Delete(key) },
	} {
		before := d.counts()["job_ended"]
		id := 100 + 4*before + 3
		d.give(subgroupBegins(id))
		require.NoError(t, end(bpf.StreamKey{StreamId: id, Publisher: publisherIndex}))
		d.drive(func() { d.worker.do(d.take()) })
		require.Equal(t, before+1, d.counts()["job_ended"])
	}
	require.Zero(t, d.shares.own[publisherIndex].Entries[shareJobs])
}

// TestDeadWorker has a worker that takes no jobs. Nothing waits for it, and what it would have sent is declined for
// user space to send.
func TestDeadWorker(t *testing.T) {
	d := newDriven(t, 3)
	d.workers.dead[0].Store(true)
	offset := uint64(len(subgroupBegins(3)))
	d.publish(subgroupBegins(3))
	d.awaitUnused()
	for d.counts()["job_share"] == 0 {
		d.publish(stream(3, offset, 0, make([]byte, 1300)))
		offset += 1300
	}
	given, err := d.Counts()
	require.NoError(t, err)
	require.EqualValues(t, jobsPerRing/2, given["job_given"], "one publisher's share")
	for range jobsPerRing {
		d.shares.release(publisherIndex, shareJobs, false)
		d.publish(stream(3, offset, 0, make([]byte, 1300)))
		offset += 1300
	}
	require.NotZero(t, d.counts()["job_full"])
}

// TestStuckWorker has a worker that lives and does nothing, and then goes on. User space waits for its copies once, and
// frees memory when its jobs are too old to be done.
func TestStuckWorker(t *testing.T) {
	d := newDriven(t, 3)
	d.workers.lifetime = 30 * time.Millisecond
	s := d.fast.NewConn()
	c := d.fast.Connect(s, func(*claim.StreamState) {})
	d.give(subgroupBegins(3))
	require.Equal(t, []int{0}, d.workers.await(5%promises, time.Time{}, waitsForAll))
	d.workers.awaitCopies(5%promises, time.Now().Add(d.workers.lifetime))
	require.True(t, d.workers.stuck[0].Load())
	d.workers.awaitCopies(5%promises, time.Now().Add(24*time.Hour)) // would not return

	d.give(subgroupBegins(7))
	require.EqualValues(t, 1, d.counts()["job_busy"])
	d.workers.busyUntil[0] = 0
	d.give(subgroupBegins(11))
	d.workers.awaitCopies(5%promises, time.Now().Add(24*time.Hour))
	c.Close()
	<-d.awaitFree(c.(*conn).index)
	require.EqualValues(t, 2, d.shares.own[publisherIndex].Entries[shareJobs])
	d.shares.reset(publisherIndex) // as if another publisher had the index

	d.drive(func() {
		jobs := d.take()
		require.Len(t, jobs, 2)
		for i := range jobs {
			jobOf(jobs[i]).Since -= uint64(time.Hour)
		}
		d.worker.do(jobs)
	})
	require.EqualValues(t, 2, d.counts()["job_late"])
	require.False(t, d.workers.stuck[0].Load())
	require.True(t, d.areDone(allPromises))
	require.Zero(t, d.shares.own[publisherIndex].Entries[shareJobs])
	require.Zero(t, d.shares.all[0].Entries[shareJobs])
}

// TestJobsOfReusedIndices closes a connection while a job is to send to it: no other connection gets its memory before
// the job is done.
func TestJobsOfReusedIndices(t *testing.T) {
	d := newDriven(t, 3)
	s := d.fast.NewConn()
	c := d.fast.Connect(s, func(*claim.StreamState) {})
	i := c.(*conn).index
	d.give(subgroupBegins(3))
	c.Close()
	select {
	case <-d.awaitFree(i):
		t.Fatal("the job may still use it")
	case <-time.After(3 * reclaimInterval): // the reclaimer has looked
	}
	d.drive(func() { d.worker.do(d.take()) })
	<-d.awaitFree(i)
}

// awaitFree returns a channel that is closed when the index of a connection is free.
func (d *driven) awaitFree(i uint32) <-chan struct{} { return awaitReady(d.t, d.fast, i) }

// awaitReady returns a channel that is closed when another connection can have an index.
func awaitReady(t testing.TB, f *FastPath, i uint32) <-chan struct{} {
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		for t.Context().Err() == nil {
			f.registry.mu.Lock()
			found := slices.Contains(f.registry.ready, i)
			f.registry.mu.Unlock()
			if found {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return ready
}
