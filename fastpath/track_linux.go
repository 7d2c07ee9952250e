package fastpath

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/moqt"
)

// Track is a track whose subgroups the kernel forwards. The methods of a nil Track do nothing.
type Track struct {
	fast  *FastPath
	index uint32

	mu      sync.Mutex
	from    *conn // nil: not on the fast path
	alias   uint64
	applied bpf.Track
	listed  map[uint32]struct{} // subscribers that were in the list while from is the publisher
	version uint32              // of the list
	offered []offered
	first   moqt.Location // claims of objects before it are not known any more
}

// NewTrack returns a track that is not on the fast path yet, or nil if there is no room for another one. It must be
// closed.
func (f *FastPath) NewTrack() *Track {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.freeIndices) == 0 || f.closed {
		return nil
	}
	last := len(f.freeIndices) - 1
	t := &Track{fast: f, index: f.freeIndices[last], listed: make(map[uint32]struct{})}
	f.freeIndices = f.freeIndices[:last]
	f.tracks[t.index] = t
	return t
}

// Forward has the kernel forward what the publisher from sends with an alias to subscribers, from the next packet on,
// and whatever it did before no more. defaultPriority is the Publisher Priority of subgroups that do not say theirs.
// Without a publisher the track is not on the fast path.
func (t *Track) Forward(from claim.ForwarderConn, alias uint64, defaultPriority uint8, subscribers []Subscriber) {
	if t == nil || !t.fast.enter() {
		return
	}
	defer t.fast.exit()
	t.mu.Lock()
	defer t.mu.Unlock()
	publisher, _ := from.(*conn)
	if publisher != nil && !publisher.isServed() {
		publisher = nil
	}
	if publisher != t.from || alias != t.alias {
		t.leave()
		if publisher == nil || !t.enter(publisher, alias, defaultPriority, subscribers) {
			return
		}
	}
	if t.from != nil {
		t.apply(defaultPriority, subscribers)
	}
}

// enter puts the track on the fast path.
func (t *Track) enter(publisher *conn, alias uint64, defaultPriority uint8, subscribers []Subscriber) bool {
	t.from, t.alias, t.applied = publisher, alias, bpf.Track{Count: 1 << 31}
	t.apply(defaultPriority, subscribers)
	if !publisher.publish(1) {
		t.from = nil
		return false
	}
	t.fast.forwarding.Add(1)
	t.fast.report("add a track", t.fast.kernel.SetAlias(publisher.index, alias, t.index))
	return true
}

// leave takes the track off the fast path.
func (t *Track) leave() {
	if t.from == nil {
		return
	}
	maps := &t.fast.kernel.ingress
	for _, err := range []error{
		maps.Aliases.Delete(bpf.AliasKey{Alias: t.alias, Publisher: t.from.index}), maps.Tracks.Delete(t.index),
	} {
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.fast.report("remove a track", err)
		}
	}
	t.from.publish(-1)
	t.fast.forwarding.Add(-1)
	t.from, t.applied = nil, bpf.Track{}
}

// apply writes the list of subscriptions if it has changed.
func (t *Track) apply(defaultPriority uint8, subscribers []Subscriber) {
	var list []subscription
	var taken []Subscriber
	for _, s := range subscribers {
		c, ok := s.Conn.(*conn)
		if !ok || c == nil || !c.isServed() || len(list) == MaxSubscriptions || slices.ContainsFunc(list, func(l subscription) bool { return l.Subscriber == c.index }) {
			continue
		}
		t.listed[c.index] = struct{}{}
		taken = append(taken, s)
		list = append(list, subscription{
			Subscriber: c.index, Alias: s.Alias, StartGroup: s.Range.Start.Group, StartObject: s.Range.Start.Object, EndGroup: s.Range.End.Group,
			Forward: s.Forward, Priority: s.Priority,
		})
	}
	v := trackValue(defaultPriority, list)
	v.Version, v.FirstGroup, v.FirstObject = t.version, t.first.Group, t.first.Object
	if v == t.applied {
		return
	}
	v.Version = t.offer(taken)
	t.fast.report("update a track", t.fast.kernel.ingress.Tracks.Put(t.index, v))
	t.applied = v
}

// publish counts the tracks on the fast path. With the first one the kernel begins to open packets, and takes streams
// that begin now.
func (c *conn) publish(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tracks += n
	u := &c.fast.kernel.publishers[c.index]
	if c.tracks == 1 && n > 0 && u.Active == 0 {
		atomic.StoreUint64(&u.ExpectedPn, max(atomic.LoadUint64(&u.ExpectedPn), uint64(c.received.Load()+1)))
		if c.largest > 0 {
			atomic.StoreUint64(&u.FirstStream, max(u.FirstStream, c.largest+4))
		}
		u.Active = 1
	}
	if c.tracks == 0 {
		u.Active = 0
	}
	return true
}

// Close ends forwarding and frees the track.
func (t *Track) Close() {
	if t == nil || !t.fast.enter() {
		return
	}
	defer t.fast.exit()
	t.mu.Lock()
	t.leave()
	t.mu.Unlock()
	t.fast.mu.Lock()
	t.fast.tracks[t.index] = nil
	t.fast.mu.Unlock()
	t.fast.reclaimer.freeTrack(t.index)
}

// Receive announces a stream of a publisher, whose objects begin at offset start and inherit priority. The returned
// function must be called when all of it was read.
func (t *Track) Receive(from claim.ForwarderConn, id int64, h moqt.SubgroupHeader, priority uint8, start int64) (end func()) {
	publisher, _ := from.(*conn)
	if t == nil || publisher == nil {
		return func() {}
	}
	stream := uint64(id)
	publisher.mu.Lock()
	publisher.largest = max(publisher.largest, stream)
	publisher.read[stream] = struct{}{}
	publisher.mu.Unlock()
	if h.SubgroupIDMode != moqt.SubgroupIDFirstObject { // else see Identify
		t.register(publisher, stream, h, priority, start)
	}
	return func() { t.end(publisher, stream) }
}

// Identify announces a stream of which only the first object said which subgroup it brings.
func (t *Track) Identify(from claim.ForwarderConn, id int64, h moqt.SubgroupHeader, subgroup uint64, priority uint8, start int64) {
	if publisher, _ := from.(*conn); t != nil && publisher != nil {
		h.SubgroupID = subgroup
		t.register(publisher, uint64(id), h, priority, start)
	}
}

func (t *Track) register(publisher *conn, stream uint64, h moqt.SubgroupHeader, priority uint8, start int64) {
	if !t.fast.enter() {
		return
	}
	defer t.fast.exit()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from != publisher || stream < t.fast.kernel.publishers[publisher.index].FirstStream {
		return
	}
	key := bpf.StreamKey{StreamId: stream, Publisher: publisher.index}
	err := t.fast.kernel.ingress.Subgroups.Update(key, t.subgroup(h, priority, start), ebpf.UpdateNoExist)
	if !errors.Is(err, ebpf.ErrKeyExist) { // the kernel was faster
		t.fast.report("register a subgroup", err)
	}
}

func (t *Track) subgroup(h moqt.SubgroupHeader, priority uint8, start int64) bpf.Subgroup {
	h = Forwarded(h, h.SubgroupID, priority)
	typ := uint8(knownLayout.SubgroupType(h))
	return bpf.Subgroup{Group: h.GroupID, Subgroup: h.SubgroupID, Track: t.index, HeaderLen: uint32(start), HeaderType: typ, Priority: priority}
}

// end lets go of a stream that was read: those of the kernel's streams for it that nobody has taken over are reset.
func (t *Track) end(publisher *conn, stream uint64) {
	if !t.fast.enter() {
		return
	}
	defer t.fast.exit()
	maps := &t.fast.kernel.ingress
	key := bpf.StreamKey{StreamId: stream, Publisher: publisher.index}
	var g bpf.Subgroup
	if maps.Subgroups.Lookup(key, &g) != nil {
		g = bpf.Subgroup{Track: t.index}
	}
	publisher.end(stream, g)
	t.mu.Lock()
	listed := make([]uint32, 0, len(t.listed))
	for i := range t.listed {
		listed = append(listed, i)
		if t.fast.conn(i) == nil {
			delete(t.listed, i)
		}
	}
	t.mu.Unlock()
	for _, i := range listed {
		key := bpf.DownstreamKey{StreamId: stream, Publisher: publisher.index, Subscriber: i}
		t.fast.abandonUnadopted(key)
	}
}

// end keeps the kernel from forwarding a stream any more, or again.
func (c *conn) end(stream uint64, g bpf.Subgroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	g.Ended = 1
	c.fast.report("end a subgroup", c.fast.kernel.ingress.Subgroups.Put(bpf.StreamKey{StreamId: stream, Publisher: c.index}, g))
	c.ended = append(c.ended, endedStream{stream, time.Now()})
	c.read[stream] = struct{}{}
}

// isRead says if user space has got to know of a publisher's stream.
func (c *conn) isRead(stream uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.read[stream]
	return ok || c.closed
}

// forgetEnded removes the subgroups that ended before a time.
func (c *conn) forgetEnded(before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _ := slices.BinarySearchFunc(c.ended, before, func(e endedStream, t time.Time) int { return cmp.Compare(e.at.UnixNano(), t.UnixNano()) })
	if n == 0 || c.closed {
		return
	}
	first := &c.fast.kernel.publishers[c.index].FirstStream
	for _, e := range c.ended[:n] {
		atomic.StoreUint64(first, max(*first, e.id+4))
		delete(c.read, e.id)
		c.fast.report("forget a subgroup", c.fast.kernel.ingress.Subgroups.Delete(bpf.StreamKey{StreamId: e.id, Publisher: c.index}))
	}
	c.ended = slices.Delete(c.ended, 0, n)
}
