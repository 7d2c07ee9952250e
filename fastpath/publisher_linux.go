package fastpath

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"sluice/fastpath/bpf"
)

// endedStream is a publisher's stream that has ended.
type endedStream struct {
	id uint64
	at time.Time
}

// addTrack puts one more track of the publisher on the fast path. With the first one the kernel begins to open packets,
// and registers streams that begin from now on. It fails if the connection has ended.
func (c *conn) addTrack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tracks++
	if p := &c.fast.kernel.publishers[c.index]; p.Active == 0 {
		expected := max(atomic.LoadUint64(&p.ExpectedPn), uint64(c.received.Load()+1))
		atomic.StoreUint64(&p.ExpectedPn, expected)
		atomic.StoreUint64(&p.FirstNumber, expected)
		if c.largest > 0 {
			atomic.StoreUint64(&p.FirstStream, max(p.FirstStream, c.largest+4))
		}
		p.Active = 1
	}
	return true
}

// removeTrack takes a track of the publisher off the fast path.
func (c *conn) removeTrack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracks--; c.tracks == 0 && !c.closed {
		c.fast.kernel.publishers[c.index].Active = 0
	}
}

// beginReading notes that user space reads a stream of the publisher.
func (c *conn) beginReading(stream uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.largest = max(c.largest, stream)
	c.read[stream] = struct{}{}
}

// isRead reports whether user space has learned of a publisher's stream.
func (c *conn) isRead(stream uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.read[stream]
	return ok || c.closed
}

// end stops the kernel from forwarding a stream, for good.
func (c *conn) end(stream uint64, g bpf.Subgroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	g.Ended = 1
	key := bpf.StreamKey{StreamId: stream, Publisher: c.index}
	c.fast.report("end a subgroup", c.fast.kernel.ingress.Subgroups.Put(key, g))
	c.ended = append(c.ended, endedStream{stream, time.Now()})
	c.read[stream] = struct{}{}
}

// forgetEnded removes the subgroups that ended before a time.
func (c *conn) forgetEnded(before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _ := slices.BinarySearchFunc(c.ended, before, func(e endedStream, t time.Time) int {
		return cmp.Compare(e.at.UnixNano(), t.UnixNano())
	})
	if n == 0 || c.closed {
		return
	}
	first := &c.fast.kernel.publishers[c.index].FirstStream
	for _, e := range c.ended[:n] {
		atomic.StoreUint64(first, max(*first, e.id+4))
		delete(c.read, e.id)
		key := bpf.StreamKey{StreamId: e.id, Publisher: c.index}
		c.fast.report("forget a subgroup", c.fast.kernel.ingress.Subgroups.Delete(key))
	}
	c.ended = slices.Delete(c.ended, 0, n)
}
