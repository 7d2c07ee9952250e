package track

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Log memory comes in chunks that double from minChunk to maxChunk, so a log wastes at most half of its memory whatever its length, and a
// long log is a short list. The first bytes of a log lie in the Log itself: a subgroup of one small object needs no chunk at all.
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

func (c *chunk) end() int64 { return c.off + int64(len(c.buf)) }

const chunkOverhead = int64(unsafe.Sizeof(chunk{}))

var chunkPools [16]sync.Pool // by class: minChunk<<class bytes

func chunkClass(size int) int { return bits.Len(uint(size/minChunk)) - 1 }

func newChunk(off int64, size int, mem *Memory) *chunk {
	c, _ := chunkPools[chunkClass(size)].Get().(*chunk)
	if c == nil {
		c = &chunk{buf: make([]byte, size)}
	}
	c.off = off
	mem.add(int64(size) + chunkOverhead)
	return c
}

func freeChunk(c *chunk, mem *Memory) {
	mem.add(-int64(len(c.buf)) - chunkOverhead)
	c.next.Store(nil)
	chunkPools[chunkClass(len(c.buf))].Put(c)
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
