package fastpath

import (
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/fastpath/bpf"
)

const (
	// reserve is how many connections may come without waiting for memory.
	reserve = 4

	reclaimInterval = 100 * time.Millisecond
	// unreadInterval is how often to look for what is over: streams that the kernel forwards and user space does not
	// read, which must last as long, old objects, and closed tracks.
	unreadInterval = 2 * time.Second
	// endedFor is how long the kernel remembers that a publisher's stream has ended: longer than its last packet is
	// sent again. After that first_stream keeps it, and all with lower ids, from being opened once more.
	endedFor = 10 * time.Second

	membarrierGlobal = 1 // MEMBARRIER_CMD_GLOBAL, membarrier(2)
)

// endedStream is a publisher's stream that has ended.
type endedStream struct {
	id uint64
	at time.Time
}

// closedStream is a subscriber's stream that nothing is sent on any more.
type closedStream struct {
	conn *conn
	key  bpf.DownstreamKey
	slot uint32
}

// reclaimer gives memory to others when no run of a program can still use it.
type reclaimer struct {
	fast   *FastPath
	done   chan struct{}
	low    chan struct{} // has room for one
	wg     sync.WaitGroup
	unread map[bpf.StreamKey]struct{} // at the last look

	mu     sync.Mutex
	closed []closedStream
	slots  []uint32
	conns  []*conn
	tracks []uint32
}

func newReclaimer(f *FastPath) *reclaimer {
	r := &reclaimer{fast: f, done: make(chan struct{}), low: make(chan struct{}, 1)}
	r.provide()
	r.wg.Go(r.run)
	return r
}

func (r *reclaimer) freeSlot(slot uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots = append(r.slots, slot)
}

func (r *reclaimer) closeStream(s closedStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = append(r.closed, s)
}

// releaseClosed lets go of the closed streams for which that is possible.
func (r *reclaimer) releaseClosed() {
	r.mu.Lock()
	closed := r.closed
	r.closed = nil
	r.mu.Unlock()
	closed = slices.DeleteFunc(closed, func(s closedStream) bool { return s.conn.release(s) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = append(r.closed, closed...)
}

func (r *reclaimer) freeConn(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
}

func (r *reclaimer) freeTrack(index uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracks = append(r.tracks, index)
}

func (r *reclaimer) run() {
	tick, look := time.NewTicker(reclaimInterval), time.NewTicker(unreadInterval)
	defer tick.Stop()
	defer look.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-r.low:
			r.refill()
		case now := <-tick.C:
			r.releaseClosed()
			r.tendRings()
			r.reclaim()
			r.shrink()
			r.forgetEnded(now)
		case <-look.C:
			r.endUnread()
			r.forgetObjects(monotonic() - uint64(objectFor))
			r.freeTracks()
		}
	}
}

func (r *reclaimer) close() {
	close(r.done)
	r.wg.Wait()
}

// reclaim frees what was given up before.
func (r *reclaimer) reclaim() {
	r.mu.Lock()
	slots, conns := r.slots, r.conns
	r.slots, r.conns = nil, nil
	r.mu.Unlock()
	if len(slots)+len(conns) == 0 {
		return
	}
	awaitGracePeriod()
	f := r.fast
	f.sweep(conns)
	for _, c := range conns {
		i := c.index
		r.takeRing(c)
		f.kernel.keys[i] = bpf.SendKeys{}
		f.kernel.conns[i] = bpf.ConnState{}
		f.kernel.publishers[i] = bpf.Publisher{}
		f.kernel.copies[i] = bpf.CopyCounts{}
	}
	for _, s := range slots {
		f.report("free a stream", f.kernel.ingress.FreeStreams.Put(nil, s))
	}
	for _, c := range conns {
		f.putIndices(&f.ready, c.index)
	}
}

// provide has the reserve filled up.
func (r *reclaimer) provide() {
	select {
	case r.low <- struct{}{}:
	default:
	}
}

// refill gives memory to indices that connections are going to take.
func (r *reclaimer) refill() {
	f := r.fast
	f.mu.Lock()
	n := min(max(reserve-len(f.ready), 0), len(f.free))
	indices := slices.Clone(f.free[len(f.free)-n:])
	f.free = f.free[:len(f.free)-n]
	f.mu.Unlock()
	if n == 0 {
		return
	}
	if err := f.kernel.ledgers.lend(indices...); err != nil {
		f.report("provide memory", err)
		f.putIndices(&f.free, indices...)
		return
	}
	f.putIndices(&f.ready, indices...)
}

// shrink takes memory from indices that nobody has taken for long, little by little: it waits for a grace period for
// each.
func (r *reclaimer) shrink() {
	f := r.fast
	f.mu.Lock()
	n := min(max(len(f.ready)-2*reserve, 0), reserve)
	indices := slices.Clone(f.ready[:n])
	f.ready = slices.Delete(f.ready, 0, n)
	f.mu.Unlock()
	if n > 0 {
		f.report("free memory", f.kernel.ledgers.takeBack(indices...))
		f.putIndices(&f.free, indices...)
	}
}

// awaitGracePeriod returns when all runs of programs that are on their way have ended: programs run in RCU read-side
// sections.
func awaitGracePeriod() {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		time.Sleep(reclaimInterval) // with nohz_full the kernel refuses; a run takes less than a millisecond
	}
}

// sweep removes what the maps still have of connections that have ended.
func (f *FastPath) sweep(conns []*conn) {
	if len(conns) == 0 {
		return
	}
	gone := make(map[uint32]bool, len(conns))
	for _, c := range conns {
		gone[c.index] = true
	}
	maps := &f.kernel.ingress
	for _, key := range keysOf(maps.Subgroups, func(k *bpf.StreamKey, _ *bpf.Subgroup) bool { return gone[k.Publisher] }) {
		f.report("forget a subgroup", maps.Subgroups.Delete(key))
	}
	mine := func(k *bpf.DownstreamKey, _ *uint32) bool { return gone[k.Publisher] || gone[k.Subscriber] }
	for _, key := range keysOf(maps.Downstreams, mine) {
		if !gone[key.Subscriber] {
			f.abandonUnadopted(key)
			continue
		}
		var slot uint32
		if err := maps.Downstreams.LookupAndDelete(key, &slot); err != nil {
			f.report("close a stream", err)
			continue
		}
		f.reclaimer.freeSlot(slot)
	}
}

// keysOf returns the keys of the elements of a hash map that match.
func keysOf[K, V any](m *ebpf.Map, match func(*K, *V) bool) (found []K) {
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

// endUnread ends the streams that user space does not come to know of: the publisher has reset them before their header
// was read.
func (r *reclaimer) endUnread() {
	maps := &r.fast.kernel.ingress
	found := make(map[bpf.StreamKey]struct{})
	ended := make(map[bpf.StreamKey]struct{})
	for _, key := range keysOf(maps.Subgroups, func(*bpf.StreamKey, *bpf.Subgroup) bool { return true }) {
		c := r.fast.conn(key.Publisher)
		if c == nil || c.isRead(key.StreamId) {
			continue
		}
		found[key] = struct{}{}
		var g bpf.Subgroup
		if _, again := r.unread[key]; again && maps.Subgroups.Lookup(key, &g) == nil {
			c.end(key.StreamId, g)
			ended[key] = struct{}{}
		}
	}
	r.unread = found
	if len(ended) == 0 {
		return
	}
	awaitGracePeriod() // until the kernel opens no more streams for them
	for _, key := range keysOf(maps.Downstreams, func(k *bpf.DownstreamKey, _ *uint32) bool {
		_, ok := ended[bpf.StreamKey{StreamId: k.StreamId, Publisher: k.Publisher}]
		return ok
	}) {
		r.fast.abandonUnadopted(key)
	}
}

// forgetEnded removes subgroups that ended long ago.
func (r *reclaimer) forgetEnded(now time.Time) {
	for _, c := range r.fast.connections() {
		c.forgetEnded(now.Add(-endedFor))
	}
}
