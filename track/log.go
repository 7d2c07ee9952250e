package track

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
)

// ErrDiscarded is returned for bytes that a log has released.
var ErrDiscarded = errors.New("log bytes are no longer held")

// State says whether a log can still grow.
type State uint8

// States of a log. A log leaves Open once.
const (
	Open     State = iota // more bytes may follow
	Finished              // the upstream stream ended with FIN: End is final
	Reset                 // the upstream stream was reset: objects after End may exist
)

// Log holds the bytes of one subgroup stream after its SUBGROUP_HEADER, append-only. Offsets are QUIC stream offsets of the upstream stream.
//
// One goroutine at a time writes (Append, Fill, Commit, AddObject, Finish, Reset); any number of Readers read at the same time, without a
// lock and without a copy. Memory is released from the front as soon as neither a Reader nor retention (see Discard) needs it.
type Log struct {
	start int64
	end   atomic.Int64  // bytes before it are visible to readers
	state atomic.Uint64 // State in the low two bits, reset code above

	// The writer's own.
	written int64 // bytes before it are in memory; >= end
	tail    *chunk
	woken   []Waker

	mu      sync.Mutex
	head    *chunk // oldest chunk in memory; nil when all is released
	retain  int64  // retention needs the bytes from here on
	readers []*Reader
	objects objectIndex
	mem     *Memory
	first   chunk
	inline  [inlineBytes]byte
}

// NewLog returns an empty log whose first byte has the QUIC stream offset start. Memory is counted in mem, which may be nil.
func NewLog(start int64, mem *Memory) *Log {
	l := &Log{start: start, written: start, mem: mem}
	l.end.Store(start)
	l.first = chunk{off: start, buf: l.inline[:]}
	l.head, l.tail = &l.first, &l.first
	return l
}

// Start returns the offset of the first byte.
func (l *Log) Start() int64 { return l.start }

// End returns the offset after the last visible byte. Load State before End: the End of a log that is not Open is final.
func (l *Log) End() int64 { return l.end.Load() }

// State returns the state and, for Reset, the code of RESET_STREAM.
func (l *Log) State() (State, uint64) {
	s := l.state.Load()
	return State(s & 3), s >> 2
}

// Append writes p and makes it visible.
func (l *Log) Append(p []byte) {
	l.write(p)
	l.Commit(l.written)
}

func (l *Log) write(p []byte) {
	for len(p) > 0 {
		n := copy(l.room(), p)
		l.written += int64(n)
		p = p[n:]
	}
}

// Fill does one Read of r straight into log memory and returns the bytes read, which no Reader sees before they are committed.
// They remain valid until they are committed and released.
func (l *Log) Fill(r io.Reader) ([]byte, error) {
	room := l.room()
	n, err := r.Read(room)
	l.written += int64(n)
	return room[:n], err
}

// Written returns the offset after the last byte in memory, visible or not.
func (l *Log) Written() int64 { return l.written }

// Commit makes the bytes before end visible to readers and wakes them. end must not be less than End nor greater than Written.
func (l *Log) Commit(end int64) {
	if end < l.end.Load() || end > l.written {
		panic(fmt.Sprintf("track: commit of %d outside [%d,%d]", end, l.end.Load(), l.written))
	}
	l.end.Store(end)
	l.wake()
}

// Rewind forgets the bytes that were not committed, so that another writer can go on from End.
func (l *Log) Rewind() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = l.end.Load()
	l.tail = l.head.seek(l.written)
	for c := l.tail.next.Swap(nil); c != nil; {
		next := c.next.Load()
		l.free(c)
		c = next
	}
}

// moveTail takes the uncommitted bytes from offset off on out of l and returns them as a log of their own.
func (l *Log) moveTail(off int64) *Log {
	n := NewLog(off, l.mem)
	c := l.head.seek(off)
	for off < l.written {
		p := c.buf[off-c.off : min(int64(len(c.buf)), l.written-c.off)]
		n.write(p)
		off += int64(len(p))
		c = c.next.Load()
	}
	l.Rewind()
	return n
}

// Finish ends the log at End, as FIN does.
func (l *Log) Finish() { l.close(Finished, 0) }

// Reset ends the log as RESET_STREAM with that code does. Bytes that were not committed are lost.
func (l *Log) Reset(code uint64) { l.close(Reset, code) }

func (l *Log) close(s State, code uint64) {
	if !l.state.CompareAndSwap(uint64(Open), uint64(s)|code<<2) {
		return
	}
	l.wake()
	l.woken = nil
	l.mu.Lock()
	l.trim()
	l.mu.Unlock()
}

// Discard tells the log that retention no longer needs the bytes before end; math.MaxInt64 stands for all that it will ever hold.
// They stay readable by the Readers that have not released them.
func (l *Log) Discard(end int64) {
	l.mu.Lock()
	l.retain = max(l.retain, end)
	l.trim()
	l.mu.Unlock()
}

// Pinned reports whether a Reader has the log open or its writer may still append.
func (l *Log) Pinned() bool {
	if s, _ := l.State(); s == Open {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.readers) > 0
}

// room returns the free memory at the tail, at least one byte.
func (l *Log) room() []byte {
	if free := l.tail.buf[l.written-l.tail.off:]; len(free) > 0 {
		return free
	}
	size := minChunk
	if l.tail != &l.first {
		size = min(2*len(l.tail.buf), maxChunk)
	}
	c := newChunk(l.written, size, l.mem)
	l.mu.Lock()
	l.tail.next.Store(c)
	l.tail = c
	l.trim()
	l.mu.Unlock()
	return c.buf
}

// trim releases what nobody needs; the caller holds mu.
func (l *Log) trim() {
	if l.head == nil {
		return
	}
	end := l.end.Load()
	if s, _ := l.State(); s != Open && l.retain >= end && len(l.readers) == 0 {
		l.releaseAll()
		return
	}
	for l.head.readers == 0 && l.head.end() <= min(l.retain, end) {
		next := l.head.next.Load()
		if next == nil {
			break
		}
		l.free(l.head)
		l.head = next
	}
	l.objects.discard(min(l.head.off, l.retain), l.mem)
}

func (l *Log) releaseAll() {
	for c := l.head; c != nil; {
		next := c.next.Load()
		l.free(c)
		c = next
	}
	l.head, l.tail = nil, nil
	l.objects.discard(math.MaxInt64, l.mem)
}

func (l *Log) free(c *chunk) {
	if c != &l.first {
		freeChunk(c, l.mem)
	}
}

// wake tells every Reader's Waker, from a copy of the list, so that a Waker may use the log and take locks of its own.
func (l *Log) wake() {
	l.mu.Lock()
	l.woken = l.woken[:0]
	for _, r := range l.readers {
		if r.waker != nil {
			l.woken = append(l.woken, r.waker)
		}
	}
	l.mu.Unlock()
	for _, w := range l.woken {
		w.Wake()
	}
}
