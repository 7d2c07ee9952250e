package track

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// ErrDiscarded is returned for bytes that a log has released.
var ErrDiscarded = errors.New("log bytes are no longer held")

// State is whether a log can still grow.
type State uint8

// States of a log. It goes from Open to Cut and back, and ends once.
const (
	Open     State = iota // more bytes may follow
	Finished              // the publisher's stream ended with FIN: End is final
	Reset                 // no stream will go on, and objects after End may exist
	Cut                   // the stream has broken off, and another one may go on
)

// Ended reports whether End is final.
func (s State) Ended() bool { return s == Finished || s == Reset }

// broken reports whether the log may end in the middle of an object, whose rest does not come.
func (s State) broken() bool { return s == Cut || s == Reset }

// Log holds the bytes of one subgroup stream after its SUBGROUP_HEADER, append-only, and finds its objects. Offsets are
// offsets in the publisher's QUIC stream.
//
// One goroutine at a time writes (Append, Fill, Commit, AddObject, Finish, Reset, Cut); any number of Readers read at
// the same time, without a lock and without a copy. Memory is released from the front as soon as neither a Reader nor
// retention (see Discard) needs it.
type Log struct {
	First Origin // that it began with
	progress
	contents

	// The writer's own.
	written int64 // bytes before it are in memory; >= end
	woken   []Waker
}

// NewLog returns an empty log whose first byte has the QUIC stream offset start. Memory is counted in mem, which may be
// nil.
func NewLog(start int64, mem *Memory) *Log {
	l := &Log{written: start, First: Origin{From: start}}
	l.First.severed.Store(-1)
	l.end.Store(start)
	l.origin.Store(&l.First)
	l.chunks.init(start, mem)
	return l
}

// Boundary returns the last offset up to off at which an object begins or ends. In a log that is Cut or Reset, the
// bytes after Boundary(End()) are a part of an object whose rest may never come.
func (l *Log) Boundary(off int64) int64 {
	if o, ok := l.Covering(off); ok {
		return max(o.Start, l.First.From)
	}
	return off
}

// sever records that what follows End does not come from the log's origin. Bytes that were not committed are forgotten,
// so that another writer can go on from End.
func (l *Log) sever() {
	l.rewind()
	l.Origin().severed.CompareAndSwap(-1, l.end.Load())
}

// follow records that the log has the bytes of another stream from End on, which is at an offset of that stream.
func (l *Log) follow(owner any, offset int64) *Origin {
	end := l.end.Load()
	o := &Origin{Owner: owner, From: end, Delta: end - offset}
	o.severed.Store(-1)
	l.origin.Store(o)
	return o
}

// Written returns the offset after the last byte in memory, visible or not. Only the writer may call it.
func (l *Log) Written() int64 { return l.written }

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

// Fill does one Read of r straight into log memory and returns the bytes read, which no Reader sees before they are
// committed. They remain valid until they are committed and released.
func (l *Log) Fill(r io.Reader) ([]byte, error) {
	room := l.room()
	n, err := r.Read(room)
	l.written += int64(n)
	return room[:n], err
}

// room returns the free memory at the tail, at least one byte.
func (l *Log) room() []byte {
	if free := l.chunks.room(l.written); len(free) > 0 {
		return free
	}
	c := l.chunks.newTail(l.written)
	l.mu.Lock()
	l.chunks.link(c)
	l.trimLocked()
	l.mu.Unlock()
	return c.buf
}

// Commit makes the bytes before end visible to readers and wakes them. end must not be less than End nor greater than
// Written.
func (l *Log) Commit(end int64) {
	if end < l.end.Load() || end > l.written {
		panic(fmt.Sprintf("track: commit of %d outside [%d,%d]", end, l.end.Load(), l.written))
	}
	l.end.Store(end)
	l.wake()
}

// rewind forgets the bytes that were not committed.
func (l *Log) rewind() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written = l.end.Load(); l.chunks.head != nil {
		l.chunks.truncate(l.written)
	}
}

// moveTail takes the uncommitted bytes from offset off on out of l and returns them as a log of their own.
func (l *Log) moveTail(off int64) *Log {
	n := NewLog(off, l.chunks.mem)
	c := l.chunks.seek(off)
	for off < l.written {
		p := c.buf[off-c.off : min(int64(len(c.buf)), l.written-c.off)]
		n.write(p)
		off += int64(len(p))
		c = c.next.Load()
	}
	l.rewind()
	return n
}

// AddObject indexes the next object of the log, as soon as the fields before its payload are known. Its ID and Start
// must follow the ID and Start of the previous object.
func (l *Log) AddObject(o Object) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.objects.add(o, l.chunks.mem); err != nil {
		return err
	}
	l.reach.Store(o.ID)
	return nil
}

// Finish ends the log at End, as FIN does.
func (l *Log) Finish() { l.close(Finished, 0) }

// Reset ends the log as RESET_STREAM with that code does. Readers never see bytes that were not committed.
func (l *Log) Reset(code uint64) { l.close(Reset, code) }

// Cut notes that nobody writes the log for now.
func (l *Log) Cut() { l.close(Cut, 0) }

func (l *Log) close(s State, code uint64) {
	if now, _ := l.State(); now.Ended() {
		return
	}
	if s.broken() {
		l.sever()
	}
	l.state.Store(uint64(s) | code<<2)
	l.wake()
	l.woken = nil
	l.mu.Lock()
	l.trimLocked()
	l.mu.Unlock()
}

// resume lets another writer go on with a log that was cut. It reports false if the bytes are no longer held.
func (l *Log) resume() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.chunks.head == nil {
		return false
	}
	l.state.CompareAndSwap(uint64(Cut), uint64(Open))
	return true
}

// wake calls every Reader's Waker, from a copy of the list, so that a Waker may use the log and take locks of its own.
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

// Discard tells the log that retention no longer needs the bytes before end; math.MaxInt64 means all bytes, future ones
// too. They stay readable by the Readers that have not released them.
func (l *Log) Discard(end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retain = max(l.retain, end)
	l.trimLocked()
}

// expire discards the objects received before the given time, except the last one.
func (l *Log) expire(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retain = max(l.retain, l.objects.receivedSince(before))
	l.trimLocked()
}

// trimLocked releases the bytes that neither a Reader nor retention needs; mu is held.
func (l *Log) trimLocked() {
	if l.chunks.head == nil {
		return
	}
	end := l.end.Load()
	if s, _ := l.State(); s != Open && l.retain >= end && len(l.readers) == 0 {
		l.chunks.release()
		l.objects.discard(math.MaxInt64, l.chunks.mem)
		return
	}
	l.chunks.trim(min(l.retain, end))
	l.objects.discard(min(l.chunks.head.off, l.retain), l.chunks.mem)
}

// Pinned reports whether a Reader has the log open or a writer appends.
func (l *Log) Pinned() bool {
	if s, _ := l.State(); s == Open {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.readers) > 0
}

// NewReader returns a reader that may read from offset off on, or ErrDiscarded if those bytes are gone. waker may be
// nil; it is called from now on, so look at End and State after NewReader, not before.
func (l *Log) NewReader(off int64, waker Waker) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.chunks.holds(off) {
		return nil, ErrDiscarded
	}
	return l.newReaderLocked(off, waker), nil
}

// newReaderOfAll is NewReader from the first byte on that is held.
func (l *Log) newReaderOfAll(waker Waker) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.chunks.head == nil {
		return nil, ErrDiscarded
	}
	return l.newReaderLocked(l.chunks.head.off, waker), nil
}

func (l *Log) newReaderLocked(off int64, waker Waker) *Reader {
	r := &Reader{log: l, waker: waker}
	r.low = l.chunks.seek(off)
	r.cur = r.low
	r.low.readers++
	r.slot = len(l.readers)
	l.readers = append(l.readers, r)
	return r
}
