package server

import (
	"runtime"
	"sync"
	"time"

	"sluice/internal/memory"
)

const (
	// loadInterval is the shortest time over which load is measured: several frames of video, so that a key frame alone
	// is not much to do.
	loadInterval = 250 * time.Millisecond
	// burst is how many packets with media the process may send in an interval before it is worthwhile to share them:
	// some 1,000 for each frame of a track, which one processor makes in a millisecond.
	burst = 6000
	// calmAfter is for how long there must have been little to do before one processor is used.
	calmAfter = 2 * time.Second
)

// processors lets Go's scheduler use one processor until that is busy for three quarters of the time, or the process
// sends much media. With more, the scheduler wakes another thread whenever a goroutine becomes ready, and that thread
// mostly finds nothing to do. This changes GOMAXPROCS, which stops all goroutines for some microseconds.
type processors struct {
	all int       // GOMAXPROCS at the start
	set func(int) // changes it

	mu   sync.Mutex    // guards what follows
	one  bool          // is in use
	at   time.Time     // when load was measured last
	cpu  time.Duration // that the process had used by then
	sent uint64        // packets that the process had sent by then
	busy time.Time     // when there was last much to do
}

// newProcessors is called when everything is ready. There is nothing to do yet; what comes first is the work for new
// connections.
func newProcessors(now time.Time) *processors {
	p := &processors{
		all: runtime.GOMAXPROCS(0), set: func(n int) { runtime.GOMAXPROCS(n) }, at: now, cpu: cpuTime(), busy: now,
		one: true,
	}
	p.set(1)
	go memory.GiveBack()
	return p
}

// useLocked uses one processor, or all.
func (p *processors) useLocked(one bool) {
	if one == p.one {
		return
	}
	p.one = one
	if one {
		p.set(1)
	} else {
		p.set(p.all)
	}
}

// look measures the load and decides. It is called whenever packets have come, and so needs no timer. packets returns
// how many the process has sent, used returns the CPU time that the process has used. Of several callers, one looks.
func (p *processors) look(now time.Time, packets func() uint64, used func() time.Duration) {
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	elapsed := now.Sub(p.at)
	if elapsed < loadInterval {
		return
	}
	cpu, sent := used(), packets()
	if sent-p.sent > burst || cpu-p.cpu > elapsed/4*3 {
		p.busy = now
	}
	p.at, p.cpu, p.sent = now, cpu, sent
	p.useLocked(now.Sub(p.busy) >= calmAfter)
}
