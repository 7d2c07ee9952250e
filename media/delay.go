package media

import (
	"sync"

	"sluice/clock"
	"sluice/internal/delay"
)

// Measure has the loop measure how long what publishers send stays in the process: from when a packet was read until
// the system has taken the packet with its bytes. Bytes that are older than the subscription do not count. What is
// sent again does not count either.
func (l *Loop) Measure(on bool) { l.measuring.Store(on) }

// Delays returns the measured delays.
func (l *Loop) Delays() (h delay.Histogram) {
	for _, sh := range l.shards {
		sh.delays.AddTo(&h)
	}
	return h
}

// LastReceived returns when the last packet came on the connection, or 0 if delays are not measured.
func (s *Sender) LastReceived() clock.Time {
	if !s.loop.measuring.Load() {
		return 0
	}
	return clock.Time(s.lastReceived.Load())
}

// arrivals are when the bytes of a log came.
type arrivals struct {
	mu    sync.Mutex
	marks []mark
}

// mark says that the bytes between the mark before and end came at a time.
type mark struct {
	end int64 // log offset
	at  clock.Time
}

// maxMarks bounds the marks of a log. When there are as many, neighbours are joined.
const maxMarks = 64

// note notes that the log has grown.
func (a *arrivals) note(end int64, at clock.Time) {
	if at == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.marks); n > 0 && a.marks[n-1].end >= end {
		return
	}
	if len(a.marks) == maxMarks {
		for i := range maxMarks / 2 {
			a.marks[i] = mark{a.marks[2*i+1].end, a.marks[2*i].at}
		}
		a.marks = a.marks[:maxMarks/2]
	}
	a.marks = append(a.marks, mark{end, at})
}

// of returns when the byte at an offset came, or 0 if that is not known.
func (a *arrivals) of(offset int64) clock.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.marks) - 1; i >= 0; i-- {
		if a.marks[i].end <= offset {
			if i+1 < len(a.marks) {
				return a.marks[i+1].at
			}
			return 0
		}
	}
	if len(a.marks) > 0 {
		return a.marks[0].at
	}
	return 0
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
