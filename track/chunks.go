package track

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Log memory comes in chunks that double from minChunk to maxChunk, so a log wastes at most half of its memory whatever
// its length, and a long log is a short list. The first bytes of a log lie in the Log itself: a subgroup of one small
// object needs no chunk at all.
const (
	inlineBytes = 64
	minChunk    = 256
	maxChunk    = 64 << 10
)

// chunk is one piece of a log. off and the length of buf never change while the chunk is in a log.
type chunk struct {
	off     int64
	buf     []byte
	next    atomic.Pointer[chunk]
	readers int // readers whose first needed byte lies in this chunk; guarded by Log.mu
}

const chunkOverhead = int64(unsafe.Sizeof(chunk{}))

func (c *chunk) end() int64 { return c.off + int64(len(c.buf)) }

// seek returns the chunk of the list from c on that holds offset off, or the last chunk if none does yet.
func (c *chunk) seek(off int64) *chunk {
	for off >= c.end() {
		next := c.next.Load()
		if next == nil {
			break
		}
		c = next
	}
	return c
}

var chunkPools [32]sync.Pool // by the bits of a size

func newChunk(off int64, size int, mem *Memory) *chunk {
	c, _ := chunkPools[bits.Len(uint(size))].Get().(*chunk)
	if c == nil {
		c = &chunk{buf: make([]byte, size)}
	}
	c.off = off
	mem.add(int64(size) + chunkOverhead)
	return c
}

// chunkList is the memory of a log. The writer appends at the tail; Readers walk the list without a lock. Its methods
// expect Log.mu to be held, except newTail and room, which only the writer may call.
type chunkList struct {
	head   *chunk // oldest in memory; nil when all is released
	tail   *chunk // the writer's own
	mem    *Memory
	first  chunk
	inline [inlineBytes]byte
}

func (l *chunkList) init(off int64, mem *Memory) {
	l.mem = mem
	l.first = chunk{off: off, buf: l.inline[:]}
	l.head, l.tail = &l.first, &l.first
}

// room returns the free memory in the tail from offset off on.
func (l *chunkList) room(off int64) []byte { return l.tail.buf[off-l.tail.off:] }

// newTail returns a chunk for the bytes from offset off on, for link.
func (l *chunkList) newTail(off int64) *chunk {
	size := minChunk
	if l.tail != &l.first {
		size = min(2*len(l.tail.buf), maxChunk)
	}
	return newChunk(off, size, l.mem)
}

func (l *chunkList) link(c *chunk) {
	l.tail.next.Store(c)
	l.tail = c
}

// seek returns the chunk that holds offset off, or the tail if none does yet. The tail, which is asked for most, it
// finds without a walk through the list.
func (l *chunkList) seek(off int64) *chunk {
	if off >= l.tail.off {
		return l.tail
	}
	return l.head.seek(off)
}

// holds reports whether the bytes from offset off on are in memory, as far as they were written.
func (l *chunkList) holds(off int64) bool { return l.head != nil && off >= l.head.off }

// read returns a copy of n bytes at offset off, nil if they are gone.
func (l *chunkList) read(off int64, n int) []byte {
	if !l.holds(off) {
		return nil
	}
	p := make([]byte, 0, n)
	for c := l.seek(off); c != nil && len(p) < n; c = c.next.Load() {
		b := c.buf[off+int64(len(p))-c.off:]
		p = append(p, b[:min(len(b), n-len(p))]...)
	}
	return p
}

// trim releases the chunks before offset off that no reader needs.
func (l *chunkList) trim(off int64) {
	for l.head.readers == 0 && l.head.end() <= off {
		next := l.head.next.Load()
		if next == nil {
			break
		}
		l.free(l.head)
		l.head = next
	}
}

// truncate releases the chunks after the chunk that holds offset off.
func (l *chunkList) truncate(off int64) {
	l.tail = l.seek(off)
	l.freeAll(l.tail.next.Swap(nil))
}

// release releases everything.
func (l *chunkList) release() {
	l.freeAll(l.head)
	l.head, l.tail = nil, nil
}

func (l *chunkList) freeAll(c *chunk) {
	for c != nil {
		next := c.next.Load()
		l.free(c)
		c = next
	}
}

func (l *chunkList) free(c *chunk) {
	if c == &l.first {
		return
	}
	l.mem.add(-int64(len(c.buf)) - chunkOverhead)
	c.next.Store(nil)
	chunkPools[bits.Len(uint(len(c.buf)))].Put(c)
}

// Memory counts the bytes that logs and indexes hold. A nil *Memory counts nothing.
type Memory struct{ n atomic.Int64 }

// Bytes returns the bytes held now.
func (m *Memory) Bytes() int64 { return m.n.Load() }

func (m *Memory) add(n int64) {
	if m != nil {
		m.n.Add(n)
	}
}
