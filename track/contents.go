package track

import (
	"math/bits"
	"sync"

	"sluice/moqt"
)

// contents is what a log has in memory: its bytes, the index of its objects, and who reads them.
type contents struct {
	mu      sync.Mutex
	retain  int64 // retention needs the bytes from this offset on
	readers []*Reader
	objects objectIndex
	chunks  chunkList
}

// isRead reports whether a Reader has the log open.
func (c *contents) isRead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.readers) > 0
}

// Seek returns the first object held with an ID of at least id.
func (c *contents) Seek(id uint64) (Object, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects.seek(id)
}

// Covering returns the object that the byte at offset off belongs to.
func (c *contents) Covering(off int64) (Object, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects.covering(off)
}

// Last returns the object added last, and false if none was.
func (c *contents) Last() (Object, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects.latest, c.objects.count > 0
}

// properties returns the Object Properties of o, visible or not, nil if they are not held. Only the writer may ask for
// invisible ones.
func (c *contents) properties(o Object) moqt.Properties {
	if o.PropertiesLen == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chunks.read(o.PropertiesStart, o.PropertiesLen)
}

// idEnd returns the offset after the Object ID Delta at offset start, visible or not. Only the writer may call it.
func (c *contents) idEnd(start int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.chunks.seek(start)
	return start + int64(bits.LeadingZeros8(^k.buf[start-k.off])) + 1 // draft §1.4.1
}
