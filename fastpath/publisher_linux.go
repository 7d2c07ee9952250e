package fastpath

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// endedStream is a publisher's stream that has ended.
type endedStream struct {
	id    uint64
	at    time.Time
	first bpf.SubgroupKey // that it may have brought first
}

// addTrack puts one more track of the publisher on the fast path. With the first one the kernel begins to open packets,
// and registers streams that begin from now on. It fails if the connection has ended.
func (c *conn) addTrack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.tracks++; c.tracks == 1 {
		c.prepareAt.Store(0)
	}
	if p := &c.fast.kernel.publishers[c.index]; p.Active == 0 {
		// The kernel does not know which packets have come before.
		expected := max(atomic.LoadUint64(&p.ExpectedPn), uint64(c.received.Load()+1))
		atomic.StoreUint64(&p.ExpectedPn, expected)
		atomic.StoreUint64(&p.FirstNumber, expected)
		p.Active = 1
	}
	// Streams that user space knows already are not the kernel's, and nothing is remembered of ended streams.
	if c.largest > 0 {
		c.raiseFirstStreamLocked(c.largest)
	}
	return true
}

// removeTrack takes a track of the publisher off the fast path.
func (c *conn) removeTrack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracks--; c.tracks == 0 && !c.closed {
		c.fast.kernel.publishers[c.index].Active = 0
		c.prepareAt.Store(never)
	}
}

// never is a packet number that does not come.
const never = math.MaxInt64

// Received implements [claim.ForwarderConn]. When half of the key streams are used up, it makes new ones for the
// packets that come next.
func (c *conn) Received(largest int64) {
	c.received.Store(largest)
	if largest < c.prepareAt.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.tracks == 0 {
		return
	}
	next := max(uint64(largest)+1, c.opening.next) // another goroutine may have reported a later one
	c.opening.look(c.readPhase<<claim.GenerationShift|next, next)
	c.opening.refill(ringLen)
	if c.opening.wanted {
		c.fast.reclaimer.rouse()
	} else {
		c.prepareAt.Store(largest + int64(ringLen/2))
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

// raiseFirstStream stops the kernel from learning of a stream, and of all streams with lower ids.
func (c *conn) raiseFirstStream(stream uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.raiseFirstStreamLocked(stream)
	}
}

func (c *conn) raiseFirstStreamLocked(stream uint64) {
	first := &c.fast.kernel.publishers[c.index].FirstStream
	atomic.StoreUint64(first, max(*first, stream+4))
}

// end stops the kernel from forwarding a stream, for good. forwarded says that the kernel may learn of the stream from
// its first packet, which can come again.
func (c *conn) end(stream uint64, forwarded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	maps, key := &c.fast.kernel.tables, bpf.StreamKey{StreamId: stream, Publisher: c.index}
	var g bpf.Subgroup
	known := maps.Subgroups.Lookup(key, &g) == nil
	if known {
		c.fast.reclaimer.afterRuns(func() {
			if err := c.fast.kernel.removeSubgroup(key); !errors.Is(err, ebpf.ErrKeyNotExist) { // it ended twice
				c.fast.report("forget a subgroup", err)
			}
		})
	}
	forwarded = forwarded && stream >= c.fast.kernel.publishers[c.index].FirstStream
	if first := firstKey(key, &g); !known && !forwarded || !c.rememberEndLocked(key, first) {
		delete(c.read, stream)
		c.fast.kernel.forgetFirst(stream, first)
	}
}

// rememberEndLocked puts an ended stream into the map of these, where the programs look. If the publisher has its share
// of that map, it raises the first stream instead.
func (c *conn) rememberEndLocked(key bpf.StreamKey, first bpf.SubgroupKey) bool {
	f := c.fast
	size := f.kernel.shares.sizes[shareSubgroups]
	if !within(uint32(len(c.ended)), f.ended.Load(), size) || f.kernel.tables.Ended.Put(key, uint32(0)) != nil {
		c.raiseFirstStreamLocked(key.StreamId)
		return false
	}
	f.ended.Add(1)
	c.ended = append(c.ended, endedStream{key.StreamId, time.Now(), first})
	c.read[key.StreamId] = struct{}{}
	return true
}

// forgetEnded removes the streams that ended before a time from the map of ended ones.
func (c *conn) forgetEnded(before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _ := slices.BinarySearchFunc(c.ended, before, func(e endedStream, t time.Time) int {
		return cmp.Compare(e.at.UnixNano(), t.UnixNano())
	})
	if n == 0 || c.closed {
		return
	}
	for _, e := range c.ended[:n] {
		c.raiseFirstStreamLocked(e.id)
		delete(c.read, e.id)
		c.fast.kernel.forgetFirst(e.id, e.first)
		c.fast.forgetEnd(bpf.StreamKey{StreamId: e.id, Publisher: c.index})
	}
	c.ended = slices.Delete(c.ended, 0, n)
}

// forgetEnd removes a stream from the map of ended ones.
func (f *FastPath) forgetEnd(key bpf.StreamKey) {
	err := f.kernel.tables.Ended.Delete(key)
	if err == nil {
		f.ended.Add(^uint32(0))
	}
	f.report("forget the end of a subgroup", err)
}
