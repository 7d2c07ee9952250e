package fastpath

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/fastpath/bpf"
	"sluice/moqt"
)

const (
	// reserve is how many connections can come without waiting for memory.
	reserve = 4

	reclaimInterval = 100 * time.Millisecond
	// unreadInterval is how often to look for old objects and ended streams, closed tracks, and streams that the kernel
	// forwards but user space does not read.
	unreadInterval = 2 * time.Second
	// endedFor is how long the kernel remembers that a publisher's stream has ended: longer than its last packet is
	// retransmitted, and than a log that was cut waits for its rest (relay.Config.Grace, by default). After that,
	// first_stream keeps this stream, and all streams with lower ids, from being opened again; fresh_group and
	// fresh_subgroup keep other streams of its subgroup from it. A stream that user space has not read for as long is
	// ended: its first packet may have been lost behind the kernel, but not for so long.
	endedFor = 10 * time.Second

	membarrierGlobal = 1 // MEMBARRIER_CMD_GLOBAL, membarrier(2)
)

// reclaimer is a goroutine that frees memory for others when no run of a program can still be using it, and removes
// dead entries from the maps.
type reclaimer struct {
	fast   *FastPath
	done   chan struct{}
	low    chan struct{} // has room for one
	rests  atomic.Bool   // it looks rarely: there was nothing to free, and the kernel did not send
	wg     sync.WaitGroup
	unread map[bpf.StreamKey]time.Time // since when; only the goroutine uses it

	mu     sync.Mutex           // guards the lists below
	later  []func()             // after a grace period
	tries  []func() (done bool) // again and again, until it is done
	conns  []*conn              // to be freed after a grace period
	tracks []uint32             // to be freed when no subgroup is left
}

func newReclaimer(f *FastPath) *reclaimer {
	r := &reclaimer{fast: f, done: make(chan struct{}), low: make(chan struct{}, 1)}
	r.provide()
	r.wg.Go(r.run)
	return r
}

// afterRuns calls f when all runs of programs that have begun before have ended.
func (r *reclaimer) afterRuns(f func()) { leave(r, &r.later, f) }

// until calls try again and again, until it returns true.
func (r *reclaimer) until(try func() (done bool)) { leave(r, &r.tries, try) }

// leave leaves work to the goroutine, in a list of r.
func leave[T any](r *reclaimer, to *[]T, work T) {
	defer r.rouse()
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, work)
}

// freeTrack frees a closed track when no subgroup is left. It does not rouse the goroutine: that is not soon.
func (r *reclaimer) freeTrack(index uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracks = append(r.tracks, index)
}

func (r *reclaimer) run() {
	timer := time.NewTimer(reclaimInterval)
	defer timer.Stop()
	looked := time.Now()
	for {
		select {
		case <-r.done:
			return
		case <-r.low:
			r.refill()
			if r.rests.Swap(false) {
				timer.Reset(reclaimInterval)
			}
		case now := <-timer.C:
			rings := r.tendRings()
			r.provideStreams()
			r.reclaim()
			r.try()
			surplus := r.shrink()
			if now.Sub(looked) >= unreadInterval {
				looked = now
				r.endUnread(now)
				for _, c := range r.fast.conns.list() {
					c.forgetEnded(now.Add(-endedFor))
				}
				r.forgetObjects(monotonic() - uint64(objectFor))
				r.freeTracks()
			}
			if rings || surplus || r.waits() {
				timer.Reset(reclaimInterval)
			} else {
				r.rests.Store(true)
				timer.Reset(unreadInterval)
			}
		}
	}
}

// waits reports whether anything waits to be freed. Closed tracks do not count: they wait for long.
func (r *reclaimer) waits() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.later)+len(r.tries)+len(r.conns) > 0
}

func (r *reclaimer) close() {
	close(r.done)
	r.wg.Wait()
}

// try does the work that has been waiting for something else, where it is possible now.
func (r *reclaimer) try() {
	r.mu.Lock()
	tries := r.tries
	r.tries = nil
	r.mu.Unlock()
	tries = slices.DeleteFunc(tries, func(try func() bool) bool { return try() })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries = append(r.tries, tries...)
}

// reclaim waits for a grace period. Then it frees connections and replaced values, and does other work that waits for
// it.
func (r *reclaimer) reclaim() {
	f, k := r.fast, r.fast.kernel
	r.mu.Lock()
	var conns []*conn
	r.conns = slices.DeleteFunc(r.conns, func(c *conn) bool {
		read := c.reading.Load() == 0
		if read {
			conns = append(conns, c)
		}
		return read
	})
	later := r.later
	r.later = nil
	r.mu.Unlock()
	for _, t := range f.tracks.list() {
		for _, c := range conns {
			t.forget(c)
		}
	}
	paths, tracks := k.paths.takeOld(), k.tracks.takeOld()
	if len(later)+len(conns)+len(paths)+len(tracks) == 0 {
		return
	}
	k.awaitUnused()
	f.report("forget a path", k.paths.free(paths))
	f.report("forget a list of subscribers", k.tracks.free(tracks))
	for _, do := range later {
		do()
	}
	r.sweep(conns)
	for _, c := range conns {
		i := c.index
		for _, ring := range c.rings() {
			r.takeRing(ring)
		}
		k.keys[i] = bpf.SendKeys{}
		k.conns[i] = bpf.ConnState{}
		k.publishers[i] = bpf.Publisher{}
		k.shares.reset(i)
		k.copies[i] = bpf.CopyCounts{}
	}
	for _, c := range conns {
		f.conns.put(&f.conns.ready, c.index)
	}
}

// rouse makes the goroutine look soon if it rests.
func (r *reclaimer) rouse() {
	if r.rests.Load() {
		r.provide()
	}
}

// provide asks for the reserve to be filled up.
func (r *reclaimer) provide() {
	select {
	case r.low <- struct{}{}:
	default:
	}
}

// refill gives memory to indices that connections are going to take.
func (r *reclaimer) refill() {
	f := r.fast
	f.conns.provide(spare)
	f.tracks.provide(spare)
	indices := f.conns.scarce(reserve)
	if len(indices) == 0 {
		return
	}
	if err := f.kernel.ledgers.lend(indices...); err != nil {
		f.report("provide memory", err)
		f.conns.put(&f.conns.free, indices...)
		return
	}
	f.conns.put(&f.conns.ready, indices...)
}

// shrink takes memory from indices that no connection has taken for long, a few at a time: the kernel waits for a grace
// period for each. It reports whether more is to be taken.
func (r *reclaimer) shrink() (more bool) {
	f := r.fast
	indices, more := f.conns.surplus(reserve)
	f.report("free memory", f.kernel.ledgers.takeBack(indices...))
	f.conns.put(&f.conns.free, indices...)
	return more
}

// firstStreams is how many streams there is memory for before there are connections: a crowd may come at once.
const firstStreams = 512

// provideStreams makes room for as many more streams as there are: the next group of a track may begin on all
// connections at once, while they still have the streams of the group before.
func (r *reclaimer) provideStreams() {
	f, used := r.fast, uint32(0)
	for _, c := range f.conns.list() {
		used += f.states[c.index].Slots.Load()
	}
	f.report("provide memory for streams", f.kernel.growStreams(2*used+1))
}

// awaitGracePeriod returns when all program runs that have begun before have ended. Programs run in RCU read-side
// sections, and this command of membarrier(2) waits for an RCU grace period. With nohz_full the kernel refuses it.
func awaitGracePeriod() {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		time.Sleep(reclaimInterval) // a run takes less than a millisecond
	}
}

// sweep removes the entries of ended connections that the maps still hold.
func (r *reclaimer) sweep(conns []*conn) {
	if len(conns) == 0 {
		return
	}
	gone := make(map[uint32]*conn, len(conns))
	for _, c := range conns {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		gone[c.index] = c
	}
	f, maps := r.fast, &r.fast.kernel.tables
	between := func(k *bpf.DownstreamKey, _ *uint32) bool {
		return gone[k.Publisher] != nil || gone[k.Subscriber] != nil
	}
	for _, key := range keysOf(maps.Downstreams, between) {
		if gone[key.Subscriber] == nil {
			if !gone[key.Publisher].isRead(key.StreamId) {
				r.noteUnread(key)
			}
			f.abandonUnadopted(key)
			if c := f.conns.get(key.Subscriber); c != nil {
				c.orphan(key)
			}
			continue
		}
		var slot uint32
		if err := maps.Downstreams.LookupAndDelete(key, &slot); err != nil {
			f.report("close a stream", err)
		} else if slot != noSlot {
			f.freeSlot(slot)
		}
	}
	of := func(k *bpf.StreamKey, _ *bpf.Subgroup) bool { return gone[k.Publisher] != nil }
	for _, key := range keysOf(maps.Subgroups, of) {
		f.report("forget a subgroup", f.kernel.removeSubgroup(key))
	}
	endOf := func(k *bpf.StreamKey, _ *uint32) bool { return gone[k.Publisher] != nil }
	for _, key := range keysOf(maps.Ended, endOf) {
		r.forgetEnd(key)
	}
	firstOf := func(k *bpf.SubgroupKey, _ *uint64) bool { return gone[k.Publisher] != nil }
	for _, key := range keysOf(maps.FirstStreams, firstOf) {
		f.report("forget the first stream of a subgroup", maps.FirstStreams.Delete(key))
	}
}

// noteUnread logs that a stream is abandoned which user space has not read.
func (r *reclaimer) noteUnread(key bpf.DownstreamKey) {
	f, from := r.fast, bpf.StreamKey{StreamId: key.StreamId, Publisher: key.Publisher}
	var slot uint32
	var g bpf.Subgroup
	c := f.conns.get(key.Subscriber)
	if c == nil || f.kernel.tables.Downstreams.Lookup(key, &slot) != nil || slot == noSlot ||
		f.kernel.tables.Subgroups.Lookup(from, &g) != nil {
		return
	}
	u := Unread{Group: g.Group, Subgroup: g.Subgroup}
	next, _ := f.streams[slot].Cursor()
	u.Sent = next - int64(g.HeaderLen)
	c.mu.Lock()
	if c.path != nil {
		u.Peer = c.path.Remote
	}
	c.mu.Unlock()
	f.debug.Debug("objects may come twice", "peer", u.Peer, "why", "nobody has read them", "objects", u)
}

// keysOf returns the keys of the elements of a hash map that match.
func keysOf[K, V any](m Table, match func(*K, *V) bool) (found []K) {
	const batch = 512
	keys, values := make([]K, batch), make([]V, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			if match(&keys[i], &values[i]) {
				found = append(found, keys[i])
			}
		}
		if err != nil { // ebpf.ErrKeyNotExist at the end
			return found
		}
	}
}

// endUnread ends the streams that user space does not know, because the publisher has reset them before their header
// was read.
func (r *reclaimer) endUnread(now time.Time) {
	f, maps := r.fast, &r.fast.kernel.tables
	found := make(map[bpf.StreamKey]time.Time)
	ended := make(map[bpf.StreamKey]struct{})
	for _, key := range keysOf(maps.Subgroups, func(*bpf.StreamKey, *bpf.Subgroup) bool { return true }) {
		c := f.conns.get(key.Publisher)
		if c == nil || c.isRead(key.StreamId) {
			continue
		}
		since, again := r.unread[key]
		if !again {
			since = now
		}
		if found[key] = since; now.Sub(since) >= endedFor {
			c.end(key.StreamId, true)
			ended[key] = struct{}{}
		}
	}
	r.unread = found
	if len(ended) == 0 {
		return
	}
	f.kernel.awaitUnused() // until the kernel opens no more streams for them
	for _, key := range keysOf(maps.Downstreams, func(k *bpf.DownstreamKey, _ *uint32) bool {
		_, ok := ended[bpf.StreamKey{StreamId: k.StreamId, Publisher: k.Publisher}]
		return ok
	}) {
		r.noteUnread(key)
		f.abandonUnadopted(key)
	}
}

// forgetEnd removes a stream from the map of ended ones.
func (r *reclaimer) forgetEnd(key bpf.StreamKey) {
	err := r.fast.kernel.tables.Ended.Delete(key)
	if err == nil {
		r.fast.ended.Add(^uint32(0))
	} else if !errors.Is(err, ebpf.ErrKeyNotExist) { // there was no room for it, or it ended twice
		r.fast.report("forget the end of a subgroup", err)
	}
}

// forgetObjects removes the claims made before a time. First it raises the tracks' first locations beyond them.
func (r *reclaimer) forgetObjects(before uint64) {
	f, objects := r.fast, r.fast.kernel.tables.Objects
	old := make(map[bpf.ObjectKey]bpf.ObjectClaim)
	keysOf(objects, func(k *bpf.ObjectKey, o *bpf.ObjectClaim) bool {
		if precedes(o.Claimed, before) && locationOf(k) != lastLocation {
			old[*k] = *o
		}
		return false
	})
	last := make(map[uint32]moqt.Location)
	for k := range old {
		if at := locationOf(&k); !at.Less(last[k.Track]) {
			last[k.Track] = at
		}
	}
	for index, at := range last {
		if t := f.tracks.get(index); t != nil {
			t.raise(at)
		}
	}
	for k, o := range old {
		r.forgetObject(k, o)
	}
}

// forgetObject removes the claim of an object.
func (r *reclaimer) forgetObject(key bpf.ObjectKey, o bpf.ObjectClaim) {
	f := r.fast
	if err := f.kernel.tables.Objects.Delete(key); err != nil {
		f.report("forget an object", err)
		return
	}
	c := f.conns.get(o.Publisher)
	f.kernel.shares.release(o.Publisher, shareObjects, c == nil || precedes(o.Claimed, c.since))
}

// freeTracks frees closed tracks whose subgroups and objects the kernel no longer forwards.
func (r *reclaimer) freeTracks() {
	r.mu.Lock()
	closed := r.tracks
	r.tracks = nil
	r.mu.Unlock()
	if len(closed) == 0 {
		return
	}
	r.fast.kernel.awaitUnused()
	f, maps := r.fast, &r.fast.kernel.tables
	keysOf(maps.Objects, func(k *bpf.ObjectKey, o *bpf.ObjectClaim) bool {
		if slices.Contains(closed, k.Track) {
			r.forgetObject(*k, *o)
		}
		return false
	})
	busy := make(map[uint32]bool)
	keysOf(maps.Subgroups, func(_ *bpf.StreamKey, g *bpf.Subgroup) bool {
		busy[g.Track] = true
		return false
	})
	keysOf(maps.FirstStreams, func(k *bpf.SubgroupKey, _ *uint64) bool {
		busy[k.Track] = true
		return false
	})
	for _, index := range closed {
		if busy[index] {
			r.freeTrack(index)
		} else {
			f.tracks.put(&f.tracks.free, index)
		}
	}
}

// tendRings gives rings to the connections that the kernel sends to, or whose packets it opens, and takes away rings
// that have not been used for long. It reports whether any are in use.
func (r *reclaimer) tendRings() (used bool) {
	var wanted []ring
	for _, c := range r.fast.conns.list() {
		for _, ring := range c.rings() {
			has, wants, unused := ring.look()
			switch {
			case unused:
				r.takeRing(ring)
			case wants:
				wanted = append(wanted, ring)
			}
			used = used || wants || has && !unused
		}
	}
	since := time.Now()
	for batch := range slices.Chunk(wanted, ringBatch) {
		r.fast.report("provide memory for key streams", r.giveRings(batch))
		if time.Since(since) > reclaimInterval {
			break // others wait for the reclaimer, too
		}
	}
	return used
}

// giveRings gives connections rings. If one of them is closed meanwhile, reclaim takes its rings.
func (r *reclaimer) giveRings(rings []ring) error {
	memory := r.fast.kernel.keyStreams
	var indices []uint32
	for _, ring := range rings {
		indices = append(indices, ring.lookahead.index)
	}
	err := memory.lend(indices...)
	for _, ring := range rings {
		ring.mu.Lock()
		ring.ring, ring.wanted, ring.refused = memory.of(ring.lookahead.index), false, err != nil
		ring.mu.Unlock()
	}
	return err
}

// takeRing takes a ring away.
func (r *reclaimer) takeRing(ring ring) {
	ring.mu.Lock()
	has := ring.ring != nil
	ring.ring, ring.made = nil, 0
	ring.mu.Unlock()
	if has {
		r.fast.report("free memory of key streams", r.fast.kernel.keyStreams.takeBack(ring.lookahead.index))
	}
}
