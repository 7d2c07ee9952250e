package track

// Waker is told that a log has grown or ended. Wake is called on the writer's goroutine, with no lock of the log's
// held, and must not block. It can be called once more just after the Reader was closed.
type Waker interface{ Wake() }

// Reader reads a log without copying and keeps the bytes from its low-water mark on in memory. It must not be used by
// two goroutines at a time, and must be closed.
type Reader struct {
	log   *Log
	waker Waker
	slot  int    // in log.readers; guarded by log.mu
	low   *chunk // holds the first byte still needed; changed under log.mu
	cur   *chunk // of the last access
}

// View returns up to limit visible bytes at offset off as a piece of log memory: fewer where a chunk ends, none at End.
// The bytes stay valid until the reader releases them. off must not lie before the low-water mark.
func (r *Reader) View(off int64, limit int) []byte {
	n := min(r.log.End()-off, int64(limit))
	if n <= 0 {
		return nil
	}
	c := r.cur
	if off < c.off {
		c = r.low
	}
	r.cur = c.seek(off)
	b := r.cur.buf[off-r.cur.off:]
	return b[:min(int64(len(b)), n)]
}

// ReadAt copies visible bytes at offset off into p and returns how many there were: fewer than len(p) only at End.
func (r *Reader) ReadAt(p []byte, off int64) int {
	n := 0
	for n < len(p) {
		v := r.View(off+int64(n), len(p))
		if len(v) == 0 {
			break
		}
		n += copy(p[n:], v)
	}
	return n
}

// Release moves the low-water mark up to off: the reader no longer needs the bytes before it.
func (r *Reader) Release(off int64) {
	if off < r.low.end() || r.low.next.Load() == nil {
		return
	}
	l := r.log
	l.mu.Lock()
	r.low.readers--
	r.low = r.low.seek(off)
	r.low.readers++
	if r.cur.off < r.low.off { // before trimLocked, after which that chunk may be in another log
		r.cur = r.low
	}
	l.trimLocked()
	l.mu.Unlock()
}

// Close releases everything. Closing twice is allowed.
func (r *Reader) Close() {
	l := r.log
	l.mu.Lock()
	if r.low == nil {
		l.mu.Unlock()
		return
	}
	last := len(l.readers) - 1
	l.readers[r.slot] = l.readers[last]
	l.readers[r.slot].slot = r.slot
	l.readers[last] = nil
	l.readers = l.readers[:last]
	r.low.readers--
	r.low, r.cur = nil, nil
	l.trimLocked()
	l.mu.Unlock()
}
