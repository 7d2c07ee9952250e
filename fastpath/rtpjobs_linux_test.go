package fastpath

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf/bpftest"
	"sluice/internal/rtpframe"
	"sluice/lab"
)

// forwardAll adds players, on all hosts in turn, and has the kernel send to them.
func (r *rtpRig) forwardAll(players int) {
	r.t.Helper()
	for i := range players {
		r.join(r.lab.Subscribers[i%len(r.lab.Subscribers)]).Forward(true)
	}
}

// TestRTPWorkers has workers make all but the first four copies of a packet, whose checksum the device is to complete
// (IPv4), or which is whole. Each player gets each packet once, in order, and nothing is left to user space.
func TestRTPWorkers(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		t.Run(fmt.Sprintf("IPv6=%v", v6), func(t *testing.T) {
			const players, packets = 41, 30
			r := newRTPRig(t, lab.Topology{Subscribers: 2, SoftwareChecksums: v6}, v6,
				Settings{MaxCopies: 1, Workers: 2, chunk: 3, jobLifetime: time.Minute})
			r.forwardAll(players)
			for i := 1; i <= packets; i++ {
				p := rtpPacket(i, bpftest.RandomBytes(1+(i*97)%1400))
				r.publish(p)
				served := r.take(p)
				for n, player := range r.players {
					require.True(t, served.Has(player.RTPPlayer), "packet %d, player %d", i, n)
					require.Equal(t, player.copyOf(p), r.receive(player), "packet %d, player %d", i, n)
				}
			}
			const runs = (players - 4 + 2) / 3 * packets
			require.Equal(t, map[string]uint64{
				"rtp_forwarded": packets, "copy_sent": players * packets,
				"job_given": 2 * packets, "job_continued": runs,
			}, r.counts())
			require.Zero(t, r.kernel.shares.all[0].Entries[shareJobs])
			require.Zero(t, r.media.rtp.shares.own[r.media.shared.Share].Entries[shareJobs])
		})
	}
}

// TestRTPWorkerFamilies has workers send to IPv4 players of an IPv6 publisher, and the other way round: they have the
// whole checksum of packets of this machine, too.
func TestRTPWorkerFamilies(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		r := newRTPRig(t, lab.Topology{Subscribers: 1}, v6,
			Settings{MaxCopies: 1, Workers: 1, jobLifetime: time.Minute})
		r.forwardAll(4)
		r.v6 = !v6
		p := r.join(r.lab.Subscribers[0])
		r.v6 = v6
		p.Forward(true)
		for i := 1; i < 20; i++ {
			packet := rtpPacket(i, bpftest.RandomBytes(1+i*61))
			r.publish(packet)
			require.Equal(t, p.copyOf(packet), r.receive(p))
			require.True(t, func() bool { served := r.take(packet); return served.Has(p.RTPPlayer) }())
		}
	}
}

// TestRTPWorkerRaces has user space handle packets while workers make copies of them.
func TestRTPWorkerRaces(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false,
		Settings{MaxCopies: 1, Workers: 2, chunk: 4, jobLifetime: time.Minute})
	r.forwardAll(48)
	wait := func(on bool) {
		for i := range r.media.rtp.workers.list {
			r.media.rtp.workers.dead[i].Store(!on)
		}
	}
	sent := func() (n uint64) {
		for _, p := range r.players {
			packets, _ := p.Sent()
			n += packets
		}
		return n
	}
	before := uint64(0)
	for i := 1; i <= 300; i++ {
		p := rtpPacket(i, "payload")
		var running sync.WaitGroup
		running.Go(func() { r.run(p) })
		for sent() < before+uint64(i%len(r.players)) { // handled after so many copies
		}
		wait(false)
		served := r.take(p)
		wait(true)
		running.Wait()
		require.Empty(t, r.media.rtp.workers.awaitAll(time.Minute))
		want := 0
		for _, p := range r.players {
			if served.Has(p.RTPPlayer) {
				want++
			}
		}
		require.EqualValues(t, want, sent()-before)
		before = sent()
	}
	t.Log(r.counts())
}

// rtpDriven is a rig whose worker's thread has ended: the test does the worker's steps, when it wants.
type rtpDriven struct {
	*rtpRig
	worker *worker
}

func newRTPDriven(t *testing.T, players int) *rtpDriven {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false,
		Settings{MaxCopies: 1, Workers: 1, chunk: 2, jobLifetime: time.Minute})
	r.forwardAll(players)
	return &rtpDriven{r, stopWorker(t, r.media.rtp.workers)}
}

// drive does the worker's jobs, after they have been changed.
func (d *rtpDriven) drive(change func(jobs [][]byte)) {
	d.t.Helper()
	require.NoError(d.t, d.lab.Relay.Do(func() error {
		jobs := d.worker.take()
		change(jobs)
		d.worker.do(jobs)
		return nil
	}))
}

func unchanged([][]byte) {}

// TestRTPJobs follows jobs from the packet to their end.
func TestRTPJobs(t *testing.T) {
	d := newRTPDriven(t, 8)
	w, shares := d.media.rtp.workers, &d.media.rtp.shares
	own := func() uint32 { return shares.own[d.media.shared.Share].Entries[shareJobs] }
	await := func() []int { return w.await(d.media.index%promises, time.Time{}, waitsForAll) }
	d.run(rtpPacket(1, "payload"))
	d.run(rtpPacket(2, "payload"))
	require.EqualValues(t, 8, d.counts()["copy_sent"], "to the first four players")
	require.Len(t, await(), 1, "user space waits")
	require.EqualValues(t, 2, own())

	leaving := d.players[7]
	leaving.Leave()
	for range 3 {
		awaitGracePeriod()
	}
	require.Equal(t, []*RTPPlayer{leaving.RTPPlayer}, d.media.leavingNow(), "its place is not free yet")
	sent, _ := leaving.Sent()
	d.media.shared.Players[leaving.position].Packets++ // as by a run that began before it left
	d.drive(unchanged)
	for len(d.media.leavingNow()) > 0 {
		awaitGracePeriod()
	}
	require.EqualValues(t, 7, d.media.shared.Count)
	all, _ := leaving.Sent()
	require.Equal(t, sent+1, all)
	require.Empty(t, await())
	require.Zero(t, own())
	require.EqualValues(t, 14, d.counts()["copy_sent"])
	for i, p := range d.players[:7] {
		for n := 1; n <= 2; n++ {
			require.Equal(t, p.copyOf(rtpPacket(n, "payload")), d.receive(p), "player %d", i)
		}
	}

	for _, tt := range []struct {
		name, why string
		end       func(p []byte, jobs [][]byte)
	}{
		{"user space has handled the packet", "job_ended", func(p []byte, _ [][]byte) {
			w.dead[0].Store(true) // so that it does not wait
			d.take(p)
			w.dead[0].Store(false)
		}},
		{"the publisher is paused", "job_ended", func([]byte, [][]byte) { d.media.Pause(true) }},
		{"it is late", "job_late", func(_ []byte, jobs [][]byte) {
			jobOf(jobs[0]).Since -= uint64(longAgo)
			shares.since[d.media.shared.Share].Store(monotonic() - uint64(2*longAgo))
		}},
	} {
		p := rtpPacket(int(3+d.counts()["job_given"]), "payload")
		require.EqualValues(t, 1, d.counted(func() { d.run(p) })["job_given"])
		got := d.counted(func() { d.drive(func(jobs [][]byte) { tt.end(p, jobs) }) })
		require.Equal(t, map[string]uint64{tt.why: 1}, got, tt.name)
		require.Zero(t, own())
		d.media.Pause(false)
		w.busyUntil[0] = 0
	}

	d.run(rtpPacket(int(3+d.counts()["job_given"]), "payload"))
	got := d.counted(func() {
		d.drive(func(jobs [][]byte) { jobOf(jobs[0]).Since += uint64(time.Hour) })
	})
	require.NotZero(t, got["job_continued"], "another CPU's clock may be ahead: %v", got)
	require.Zero(t, got["job_late"])
}

// TestRTPJobShares checks that one publisher has half of the rings, and that user space knows which jobs are not given.
func TestRTPJobShares(t *testing.T) {
	d := newRTPDriven(t, 5)
	d.media.rtp.workers.dead[0].Store(true) // nobody waits for it
	packet := func(i int) []byte { return rtpPacket(i, make([]byte, 1400)) }
	n := 1
	for ; d.counts()["job_share"] == 0; n++ {
		d.run(packet(n))
	}
	require.EqualValues(t, jobsPerRing/2, d.counts()["job_given"])
	served := d.take(packet(n - 1))
	require.True(t, served.Has(d.players[3].RTPPlayer))
	require.False(t, served.Has(d.players[4].RTPPlayer))
	for ; d.counts()["job_full"] == 0; n++ {
		d.media.rtp.shares.release(uint32(d.media.shared.Share), shareJobs, false)
		d.run(packet(n))
	}
	before := d.counts()["job_given"]
	d.media.rtp.workers.relieve()
	got := d.counted(func() { d.run(packet(n)) })
	require.Equal(t, map[string]uint64{"rtp_forwarded": 1, "copy_sent": 4, "job_busy": 1}, got)
	require.Equal(t, before, d.counts()["job_given"])
}

// TestRTPAwait waits for a worker. Meanwhile, all else that can be done with the media goes on.
func TestRTPAwait(t *testing.T) {
	d := newRTPDriven(t, 8)
	p := rtpPacket(1, "payload")
	d.run(p)
	waited := make(chan struct{})
	go func() {
		d.media.Await()
		close(waited)
	}()
	progress := &d.media.rtp.workers.progress
	require.Eventually(t, func() bool {
		progress.mu.Lock()
		defer progress.mu.Unlock()
		return progress.c != nil
	}, time.Minute, time.Millisecond, "it waits")
	packets, _ := d.players[0].Sent()
	require.EqualValues(t, 1, packets)
	d.players[0].Forward(false)
	d.media.Pause(true)
	d.media.Pause(false)
	require.True(t, d.media.Frames(func(*rtpframe.Frames) {}))
	select {
	case <-waited:
		t.Fatal("it has not waited for the worker")
	default:
	}
	d.drive(unchanged)
	<-waited
	served := d.media.Take(RTPPacket{SSRC: 7, Sequence: 1, Timestamp: rtpTimestamp(1)})
	for i, player := range d.players {
		require.True(t, served.Has(player.RTPPlayer), "player %d", i)
	}
}

// TestRTPJobsOfSource checks that the medias of a publisher have one share of the jobs, and another publisher has its
// own.
func TestRTPJobsOfSource(t *testing.T) {
	d := newRTPDriven(t, 5)
	d.media.rtp.workers.dead[0].Store(true) // nobody waits for it
	source := d.media.source
	source.Remote = netip.AddrPortFrom(source.Remote.Addr(), 5002)
	other, err := d.NewRTPMedia(source)
	require.NoError(t, err)
	require.Equal(t, d.media.shared.Share, other.shared.Share)
	source.Remote = netip.MustParseAddrPort("192.0.2.1:5000")
	stranger, err := d.NewRTPMedia(source)
	require.NoError(t, err)
	require.NotEqual(t, d.media.shared.Share, stranger.shared.Share)
	for i := 1; d.counts()["job_share"] == 0; i++ {
		d.run(rtpPacket(i, make([]byte, 1400)))
	}
	shares := &d.media.rtp.shares
	require.False(t, shares.mayHold(uint32(other.shared.Share), shareJobs))
	require.True(t, shares.mayHold(uint32(stranger.shared.Share), shareJobs))
	given := stranger.shared.Share
	stranger.Close()
	other.Close()
	require.False(t, shares.mayHold(uint32(d.media.shared.Share), shareJobs), "it still has a media")
	source.Remote = netip.MustParseAddrPort("192.0.2.2:5000")
	next, err := d.NewRTPMedia(source)
	require.NoError(t, err)
	defer next.Close()
	require.Equal(t, given, next.shared.Share, "it was free again")
}
