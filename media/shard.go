package media

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"sluice/clock"
	"sluice/internal/delay"
	"sluice/internal/udp"
	"sluice/internal/unlucky"
	"sluice/track"
)

// shard is one sending goroutine with the senders that belong to it. Shards have no cache line in common, because they
// run on different processors.
type shard struct {
	loop   *Loop
	sock   udp.Socket
	writes *udp.Counters // of sock
	asked  atomic.Uint64 // packets that ask a peer for fewer or more ACKs
	wake   chan struct{} // has room for one

	mu       sync.Mutex
	runnable []*Sender
	grown    []*feed
	feeds    map[*track.Log]*feed
	senders  map[*Sender]struct{} // whose path is known
	closed   bool

	// The goroutine's own.
	batch   *udp.Batch
	alarms  alarms
	leaving []clock.Time // when the bytes of packets in batch came, if delays are measured

	delays delay.Recorder

	_ cpu.CacheLinePad
}

func newShard(l *Loop, sock udp.Socket, writes *udp.Counters) *shard {
	return &shard{
		loop: l, sock: sock, writes: writes, wake: make(chan struct{}, 1), batch: udp.NewBatch(sock),
		feeds: make(map[*track.Log]*feed), senders: make(map[*Sender]struct{}),
	}
}

// enqueue makes the goroutine serve a sender soon. It does not block. It reports false if the shard is closed.
func (sh *shard) enqueue(s *Sender) bool {
	sh.mu.Lock()
	closed, first := sh.closed, !s.task.queued
	if !closed && first {
		s.task.queued = true
		sh.runnable = append(sh.runnable, s)
	}
	sh.mu.Unlock()
	if !closed && first {
		sh.notify()
	}
	return !closed
}

func (sh *shard) notify() {
	select {
	case sh.wake <- struct{}{}:
	default:
	}
}

// register makes s one of the senders that close with the shard. It reports false if the shard is closed.
func (sh *shard) register(s *Sender) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !sh.closed {
		sh.senders[s] = struct{}{}
	}
	return !sh.closed
}

func (sh *shard) registered() []*Sender {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return slices.Collect(maps.Keys(sh.senders))
}

func (sh *shard) unregister(s *Sender) {
	sh.mu.Lock()
	delete(sh.senders, s)
	sh.mu.Unlock()
	sh.enqueue(s) // so that its alarm is removed
}

// close ends the senders' streams and stops the goroutine.
func (sh *shard) close() {
	sh.mu.Lock()
	sh.closed = true
	senders := sh.senders
	sh.senders = make(map[*Sender]struct{})
	sh.mu.Unlock()
	for s := range senders {
		s.mu.Lock()
		s.closeLocked()
		s.mu.releaseAndTell()
	}
	sh.notify()
}

// run serves until the shard is closed.
func (sh *shard) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var feeds []*feed
	var senders []*Sender
	for {
		var open bool
		if feeds, senders, open = sh.take(feeds[:0], senders[:0]); !open {
			return
		}
		unlucky.Late()
		sh.serve(feeds, senders)
		if !sh.idle() {
			continue
		}
		timer.Reset(sh.untilAlarm())
		select {
		case <-sh.wake:
		case <-timer.C:
		}
	}
}

// take takes the senders to serve. The slices are exchanged with the queues, so that neither allocates for long.
func (sh *shard) take(feeds []*feed, senders []*Sender) ([]*feed, []*Sender, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		for _, f := range sh.feeds {
			f.reader.Close()
		}
		return nil, nil, false
	}
	sh.grown, feeds = feeds, sh.grown
	sh.runnable, senders = senders, sh.runnable
	for _, s := range senders {
		s.task.queued = false
	}
	return feeds, senders, true
}

func (sh *shard) idle() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.grown) == 0 && len(sh.runnable) == 0 && !sh.closed
}

// serve serves the followers of logs that have grown, senders that were woken, and senders whose alarm is due. Their
// packets share batches.
func (sh *shard) serve(feeds []*feed, senders []*Sender) {
	now := sh.loop.clock.Now()
	for _, f := range feeds {
		f.serve(now)
	}
	for _, s := range senders {
		more, alarm := s.serve(now, sh.batch, nil)
		sh.after(s, more, alarm)
	}
	for s := sh.alarms.due(now); s != nil; s = sh.alarms.due(now) {
		more, alarm := s.serve(now, sh.batch, nil)
		sh.after(s, more, alarm)
	}
	sh.flush()
	clear(feeds)
	clear(senders)
}

// after plans what a served sender wants.
func (sh *shard) after(s *Sender, more bool, alarm clock.Time) {
	if more {
		sh.enqueue(s)
	}
	sh.alarms.set(s, alarm)
	if sh.batch.Full() {
		sh.flush()
	}
}

// maxSleep bounds how long a shard sleeps without an alarm.
const maxSleep = time.Hour

func (sh *shard) untilAlarm() time.Duration {
	next := sh.alarms.next()
	if next == clock.Never {
		return maxSleep
	}
	return max(next.Sub(sh.loop.clock.Now()), 0)
}

// noteDelay notes that the next packet in the batch has bytes of a stream, from an offset on, that are sent for the
// first time.
func (sh *shard) noteDelay(st *Stream, offset int64) {
	if !sh.loop.measuring.Load() {
		return
	}
	a := st.arrivals.Load()
	if a == nil {
		return
	}
	if at := a.of(st.logOffset(offset)); at >= st.sub.since {
		sh.leaving = append(sh.leaving, at)
	}
}

// flush sends the batch, and notes the delays of the packets in it.
func (sh *shard) flush() {
	sh.batch.Flush()
	if len(sh.leaving) == 0 {
		return
	}
	now := sh.loop.clock.Now()
	for _, at := range sh.leaving {
		sh.delays.Note(now.Sub(at))
	}
	sh.leaving = sh.leaving[:0]
}

// follow makes the shard serve a stream when its log grows; the caller serves what the log has by now. A log that has
// ended needs no following.
func (sh *shard) follow(st *Stream) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := sh.feeds[st.log]
	if f == nil && !sh.closed {
		f = &feed{shard: sh, log: st.log}
		if !f.beginLocked() {
			return
		}
		sh.feeds[st.log] = f
	}
	if f != nil {
		f.mu.Lock()
		f.streams = append(f.streams, st)
		st.arrivals.Store(&f.arrivals)
		f.mu.Unlock()
	}
}

// followed returns the number of logs that streams follow.
func (sh *shard) followed() int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.feeds)
}
