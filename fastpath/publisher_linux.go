package fastpath

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/moqt"
)

// endedStream is a publisher's stream that has ended.
type endedStream struct {
	id    uint64
	at    time.Time
	first bpf.SubgroupKey // that it may have brought first
}

// publishing is the part of a connection that publishes: which of its packets the kernel opens, which of its streams
// user space reads, and which have ended.
type publishing struct {
	conn *conn

	received  atomic.Int64 // largest packet number; -1: none
	reading   atomic.Int64 // streams that user space reads now
	prepareAt atomic.Int64 // at this packet number, make key streams for later ones
	begun     signal       // the media sender may have one more stream

	// Guarded by conn.mu.
	opening   lookahead
	readPhase uint64 // the newest key phase
	tracks    int    // on the fast path
	largest   uint64
	read      map[uint64]struct{}      // streams that user space has begun to read, until they are forgotten
	ended     []endedStream            // in the order of time
	awaited   map[uint64]chan struct{} // each is closed when a stream ends that another one waits for
}

// addTrack puts one more track of the publisher on the fast path. With the first one the kernel begins to open packets,
// and registers streams that begin from now on. It fails if the connection has ended.
func (p *publishing) addTrack() bool {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if p.conn.closed {
		return false
	}
	if p.tracks++; p.tracks == 1 {
		p.prepareAt.Store(0)
	}
	if k := &p.conn.fast.kernel.publishers[p.conn.index]; k.Active == 0 {
		// The kernel does not know which packets have come before.
		p.expectLocked(p.received.Load() + 1)
		atomic.StoreUint64(&k.FirstNumber, atomic.LoadUint64(&k.ExpectedPn))
		k.Active = 1
	}
	// Streams that user space knows already are not the kernel's, and nothing is remembered of ended streams.
	if p.largest > 0 {
		p.raiseFirstStreamLocked(p.largest)
	}
	return true
}

// removeTrack takes a track of the publisher off the fast path.
func (p *publishing) removeTrack() {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if p.tracks--; p.tracks == 0 && !p.conn.closed {
		p.conn.fast.kernel.publishers[p.conn.index].Active = 0
		p.prepareAt.Store(never)
	}
}

// never is a packet number that does not come.
const never = math.MaxInt64

// expectLocked tells the programs the packet number that is expected next, unless they expect a larger one.
func (p *publishing) expectLocked(next int64) {
	k := &p.conn.fast.kernel.publishers[p.conn.index].ExpectedPn
	for seen := atomic.LoadUint64(k); seen < uint64(next); seen = atomic.LoadUint64(k) {
		if atomic.CompareAndSwapUint64(k, seen, uint64(next)) {
			return
		}
	}
}

// Received implements [claim.ForwarderConn]. It lets the programs use new keys. When half of the key streams are used
// up, it makes new ones for the packets that come next.
func (p *publishing) Received(largest int64) {
	p.received.Store(largest)
	if largest < p.prepareAt.Load() {
		return
	}
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if p.conn.closed {
		return
	}
	p.expectLocked(largest + 1)
	atomic.StoreUint32(&p.conn.fast.kernel.publishers[p.conn.index].KeysSet, 1<<p.readPhase)
	if p.tracks == 0 {
		p.prepareAt.Store(never)
		return
	}
	next := max(uint64(largest)+1, p.opening.next) // another goroutine may have reported a later one
	p.opening.look(p.readPhase<<claim.GenerationShift|next, next)
	p.opening.refill(ringLen)
	if p.opening.wanted {
		p.conn.fast.reclaimer.rouse()
	} else {
		p.prepareAt.Store(largest + int64(ringLen/2))
	}
}

// beginReading notes that user space reads a stream of the publisher. While it reads any, the reclaimer keeps what the
// kernel has opened, also if the publisher has ended: the media sender may adopt it.
func (p *publishing) beginReading(stream uint64) {
	p.reading.Add(1)
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	p.largest = max(p.largest, stream)
	p.read[stream] = struct{}{}
}

// awaitRead waits until the media sender has all streams of a track that the kernel has opened for some subscribers, or
// the connection has ended.
func (p *publishing) awaitRead(ctx context.Context, track uint32, to []claim.ForwarderConn) {
	for {
		begun := p.begun.next() // before the look
		if !p.hasUnread(track, to) {
			return
		}
		select {
		case <-begun:
		case <-ctx.Done():
			return
		}
	}
}

// hasUnread reports whether the kernel has opened streams of a track, for some subscribers, that the media sender does
// not have yet.
func (p *publishing) hasUnread(track uint32, to []claim.ForwarderConn) bool {
	f := p.conn.fast
	if !p.conn.isServed() || !f.enter() {
		return false
	}
	defer f.exit()
	return len(keysOf(f.kernel.tables.Downstreams, func(k *bpf.DownstreamKey, _ *uint32) bool {
		c := f.conns.get(k.Subscriber)
		if k.Publisher != p.conn.index || c == nil || !slices.Contains(to, claim.ForwarderConn(c)) {
			return false
		}
		from, end, g := bpf.StreamKey{StreamId: k.StreamId, Publisher: k.Publisher}, uint32(0), bpf.Subgroup{}
		ended := f.kernel.tables.Ended.Lookup(from, &end) == nil
		if ended || f.kernel.tables.Subgroups.Lookup(from, &g) != nil || g.Track != track {
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		_, has := c.slots[*k]
		return !has && f.kernel.tables.Downstreams.Lookup(*k, &end) == nil // it may have been released just now
	})) > 0
}

// isRead reports whether user space has learned of a publisher's stream.
func (p *publishing) isRead(stream uint64) bool {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	_, ok := p.read[stream]
	return ok
}

// awaitFirst waits until user space has read the stream that brought a subgroup first, if that is another one: the
// kernel may have forwarded its objects, although its packet has been lost before user space.
func (p *publishing) awaitFirst(stream uint64, of bpf.SubgroupKey) {
	p.conn.mu.Lock()
	tables, first := &p.conn.fast.kernel.tables, stream
	_ = tables.FirstStreams.Lookup(of, &first) // fails if there is none
	var end uint32
	ended := tables.Ended.Lookup(bpf.StreamKey{StreamId: first, Publisher: p.conn.index}, &end) == nil
	if p.conn.closed || first == stream || ended {
		p.conn.mu.Unlock()
		return
	}
	if p.awaited[first] == nil {
		p.awaited[first] = make(chan struct{})
	}
	c := p.awaited[first]
	p.conn.mu.Unlock()
	select {
	case <-c:
	case <-time.After(endedFor):
	}
}

// releaseLocked lets the streams go on that wait for the end of one.
func (p *publishing) releaseLocked(stream uint64) {
	if c := p.awaited[stream]; c != nil {
		close(c)
		delete(p.awaited, stream)
	}
}

// goOn makes a stream known to the kernel while user space reads it, although streams with larger ids began before the
// kernel had to do with the publisher. If there is no room, user space sends the rest.
func (p *publishing) goOn(stream uint64, g bpf.Subgroup) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	key := bpf.StreamKey{StreamId: stream, Publisher: p.conn.index}
	var end uint32
	_, read := p.read[stream]
	if p.conn.closed || !read || p.conn.fast.kernel.tables.Ended.Lookup(key, &end) == nil {
		return
	}
	err := p.conn.fast.kernel.addSubgroup(key, g)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) && !errors.Is(err, errShare) {
		p.conn.fast.report("register a subgroup", err)
	}
}

// raiseFirstStream stops the kernel from learning of a stream, and of all streams with lower ids.
func (p *publishing) raiseFirstStream(stream uint64) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if !p.conn.closed {
		p.raiseFirstStreamLocked(stream)
	}
}

func (p *publishing) raiseFirstStreamLocked(stream uint64) {
	first := &p.conn.fast.kernel.publishers[p.conn.index].FirstStream
	atomic.StoreUint64(first, max(*first, stream+4))
}

// end stops the kernel from forwarding a stream, for good. forwarded says that the kernel may learn of the stream from
// its first packet, which can come again.
func (p *publishing) end(stream uint64, forwarded bool) { p.forget(p.noteEnd(stream, forwarded)) }

// noteEnd returns the stream if the publisher has its share of ended ones.
func (p *publishing) noteEnd(stream uint64, forwarded bool) []endedStream {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	p.releaseLocked(stream)
	defer p.begun.raise()
	if p.conn.closed {
		return nil
	}
	maps, key := &p.conn.fast.kernel.tables, bpf.StreamKey{StreamId: stream, Publisher: p.conn.index}
	var g bpf.Subgroup
	known := maps.Subgroups.Lookup(key, &g) == nil
	if known {
		p.conn.fast.reclaimer.afterRuns(func() {
			if err := p.conn.fast.kernel.removeSubgroup(key); !errors.Is(err, ebpf.ErrKeyNotExist) { // it ended twice
				p.conn.fast.report("forget a subgroup", err)
			}
		})
	}
	forwarded = forwarded && stream >= p.conn.fast.kernel.publishers[p.conn.index].FirstStream
	switch first := firstKey(key, &g); {
	case !known && !forwarded:
		delete(p.read, stream)
	case !p.rememberEndLocked(key, first):
		return []endedStream{{id: stream, first: first}}
	}
	return nil
}

// rememberEndLocked puts an ended stream into the map of these, where the programs look. If the publisher has its share
// of that map, it raises the first stream instead.
func (p *publishing) rememberEndLocked(key bpf.StreamKey, first bpf.SubgroupKey) bool {
	f := p.conn.fast
	size := f.kernel.shares.sizes[shareSubgroups]
	err := ebpf.ErrKeyNotExist // no room
	if within(uint32(len(p.ended)), f.ended.Load(), size) {
		err = f.kernel.tables.Ended.Update(key, uint32(0), ebpf.UpdateNoExist)
	}
	switch {
	case err == nil:
		f.ended.Add(1)
	case !errors.Is(err, ebpf.ErrKeyExist): // else it has ended before
		p.raiseFirstStreamLocked(key.StreamId)
		return false
	}
	p.ended = append(p.ended, endedStream{key.StreamId, time.Now(), first})
	p.read[key.StreamId] = struct{}{}
	return true
}

// forgetEnded removes the streams that ended before a time from the map of ended ones.
func (p *publishing) forgetEnded(before time.Time) { p.forget(p.takeEnded(before)) }

func (p *publishing) takeEnded(before time.Time) (old []endedStream) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	n, _ := slices.BinarySearchFunc(p.ended, before, func(e endedStream, t time.Time) int {
		return cmp.Compare(e.at.UnixNano(), t.UnixNano())
	})
	old = slices.Clone(p.ended[:n])
	p.ended = slices.Delete(p.ended, 0, n)
	return old
}

// forget lets the kernel forget ended streams. Their tracks learn of that before: the kernel must not open other
// streams for the same subgroups.
func (p *publishing) forget(old []endedStream) {
	if len(old) == 0 {
		return
	}
	f, last := p.conn.fast, make(map[uint32]moqt.Location)
	for _, e := range old {
		if at := subgroupAt(e.first.Group, e.first.Subgroup); !at.Less(last[e.first.Track]) {
			last[e.first.Track] = at
		}
	}
	for index, at := range last {
		if t := f.tracks.get(index); t != nil {
			t.mu.Lock()
			t.raiseSubgroupLocked(p.conn, at)
			t.mu.Unlock()
		}
	}
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if p.conn.closed {
		return
	}
	for _, e := range old {
		p.raiseFirstStreamLocked(e.id)
		delete(p.read, e.id)
		f.kernel.forgetFirst(e.id, e.first)
		f.reclaimer.forgetEnd(bpf.StreamKey{StreamId: e.id, Publisher: p.conn.index})
	}
}
