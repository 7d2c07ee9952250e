package fastpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopWorker ends the thread of the only worker. Others wait for its jobs as if it worked.
func stopWorker(t *testing.T, all *workers) *worker {
	w := all.list[0]
	require.NoError(t, w.close())
	w.file = nil
	all.done.Wait()
	require.True(t, all.dead[0].Swap(false))
	t.Cleanup(func() { all.dead[0].Store(true) })
	return w
}

func waitsForAll(int) bool { return false }

// awaitAll waits for all workers to do all jobs, and returns the workers that were too late.
func (w *workers) awaitAll(limit time.Duration) []int {
	return w.await(allPromises, time.Now().Add(limit), waitsForAll)
}

// TestStuckWorker has a worker that lives and does nothing, and then goes on. User space waits for its copies once, and
// gives a media's memory back when its jobs are too old to be done.
func TestStuckWorker(t *testing.T) {
	d := newRTPDriven(t, 6)
	w, element, inADay := d.media.rtp.workers, d.media.index%promises, time.Now().Add(24*time.Hour)
	w.lifetime = 30 * time.Millisecond
	d.run(rtpPacket(1, "payload"))
	require.Equal(t, []int{0}, w.await(element, time.Time{}, waitsForAll))
	w.awaitCopies(element, time.Now().Add(w.lifetime))
	require.True(t, w.stuck[0].Load())
	w.awaitCopies(element, inADay) // would not return

	d.run(rtpPacket(2, "payload"))
	require.EqualValues(t, 1, d.counts()["job_busy"])
	w.busyUntil[0] = 0
	d.run(rtpPacket(3, "payload"))
	w.awaitCopies(element, inADay)
	share := uint32(d.media.shared.Share)
	d.media.Close()
	shares := &d.media.rtp.shares
	require.EqualValues(t, 2, shares.own[share].Entries[shareJobs])
	shares.reset(share) // as if another publisher had it

	d.drive(func(jobs [][]byte) {
		require.Len(t, jobs, 2)
		for i := range jobs {
			jobOf(jobs[i]).Since -= uint64(longAgo)
		}
	})
	require.EqualValues(t, 2, d.counts()["job_late"])
	require.False(t, w.stuck[0].Load())
	require.Empty(t, w.await(allPromises, time.Time{}, waitsForAll))
	require.Zero(t, shares.all[0].Entries[shareJobs])
}
