package fastpath

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/moqt"
)

// ForwardedTrack is a track whose subgroups and objects the kernel forwards. The methods of a nil ForwardedTrack do
// nothing.
type ForwardedTrack struct {
	fast  *FastPath
	index uint32

	mu      sync.Mutex          // guards all below
	from    *conn               // the publisher; nil: not on the fast path
	last    *conn               // the latest publisher
	alias   uint64              // of the track, there
	wanted  forwarding          // the arguments of the last Forward
	applied []bpf.Track         // the parts of the list in the map; nil: none
	listed  map[uint32]struct{} // connections that have been in the list while from is the publisher
	version uint32              // of the list
	offered []offered
	first   moqt.Location // claims of objects before it may be forgotten
	fresh   moqt.Location // streams of subgroups before it may be unknown to the kernel: see subgroupAt
}

// forwarding is for whom the kernel forwards a track.
type forwarding struct {
	defaultPriority uint8
	subscribers     []Subscriber
}

// Forward lets the kernel forward the data of publisher from with an alias to subscribers, from the next packet on. It
// replaces the settings of an earlier call. defaultPriority is the Publisher Priority of subgroups without one of their
// own. Without a publisher the track is not on the fast path.
func (t *ForwardedTrack) Forward(
	from claim.ForwarderConn, alias uint64, defaultPriority uint8, subscribers []Subscriber,
) {
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
		t.leaveLocked()
		if publisher == nil || !t.enterLocked(publisher, alias, forwarding{defaultPriority, subscribers}) {
			return
		}
	}
	if t.from != nil {
		t.applyLocked(forwarding{defaultPriority, subscribers})
	}
}

// forget takes a connection that has ended off the track, before another one can have its index: it is told later that
// the publisher or the subscriber has gone.
func (t *ForwardedTrack) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.from == c:
		t.leaveLocked()
	case slices.ContainsFunc(t.wanted.subscribers, func(s Subscriber) bool { return s.Conn == c }):
		t.applyLocked(t.wanted)
	}
}

// enterLocked puts the track on the fast path. The alias comes last: the programs look up the track behind it.
func (t *ForwardedTrack) enterLocked(publisher *conn, alias uint64, f forwarding) bool {
	if publisher != t.last || alias != t.alias {
		t.fresh = moqt.Location{}
	}
	t.from, t.last, t.alias, t.applied = publisher, publisher, alias, nil
	t.applyLocked(f)
	if !publisher.addTrack() {
		t.fast.kernel.tracks.remove(t.index)
		t.from, t.applied, t.wanted = nil, nil, forwarding{} // else forget would apply it
		return false
	}
	t.fast.forwarding.Add(1)
	t.fast.report("add a track", t.fast.kernel.SetAlias(publisher.index, alias, t.index))
	return true
}

// leaveLocked takes the track off the fast path.
func (t *ForwardedTrack) leaveLocked() {
	if t.from == nil {
		return
	}
	k := t.fast.kernel
	if err := k.RemoveAlias(t.from.index, t.alias); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.fast.report("remove a track", err)
	}
	k.tracks.remove(t.index)
	t.from.removeTrack()
	t.fast.forwarding.Add(-1)
	t.from, t.applied, t.wanted = nil, nil, forwarding{}
}

// applyLocked writes the list of subscriptions if it has changed.
func (t *ForwardedTrack) applyLocked(f forwarding) {
	t.wanted = f
	taken, list := servable(f.subscribers)
	for _, s := range list {
		t.listed[s.Subscriber] = struct{}{}
	}
	v := bpf.Track{
		DefaultPriority: uint32(f.defaultPriority), Version: t.version, Publisher: t.from.index, Alias: t.alias,
		FirstGroup: t.first.Group, FirstObject: t.first.Object,
		FreshGroup: t.fresh.Group, FreshSubgroup: t.fresh.Object,
	}
	if slices.Equal(trackValue(v, list), t.applied) {
		return
	}
	v.Version = t.offerLocked(slices.Clone(taken[:min(len(taken), MaxObjectCopies)])) // taken may have hundreds
	t.putLocked(trackValue(v, list))
}

// putLocked gives the programs the parts of a list. If there is no room for them, the programs do not serve the track:
// the list that they have is out of date.
func (t *ForwardedTrack) putLocked(parts []bpf.Track) {
	err := t.fast.kernel.tracks.put(t.index, parts...)
	if err != nil {
		t.fast.report("update a track", err)
		t.fast.kernel.tracks.remove(t.index)
		parts = nil
	}
	t.applied = parts
}

// servable returns the subscribers that the kernel can serve, and their subscriptions: one for each connection.
func servable(subscribers []Subscriber) (taken []Subscriber, list []bpf.Subscription) {
	listed := make(map[uint32]bool, len(subscribers))
	for _, s := range subscribers {
		c, ok := s.Conn.(*conn)
		if !ok || c == nil || !c.isServed() || len(list) == MaxSubscriptions || listed[c.index] {
			continue
		}
		listed[c.index] = true
		taken = append(taken, s)
		list = append(list, bpf.Subscription{
			Subscriber: c.index, Alias: s.Alias,
			StartGroup: s.Range.Start.Group, StartObject: s.Range.Start.Object, EndGroup: s.Range.End.Group,
			Forward: flag[uint8](s.Forward), Priority: s.Priority,
		})
	}
	return taken, list
}

// Close stops forwarding and frees the track.
func (t *ForwardedTrack) Close() {
	if t == nil || !t.fast.enter() {
		return
	}
	defer t.fast.exit()
	t.mu.Lock()
	t.leaveLocked()
	t.mu.Unlock()
	t.fast.tracks.set(t.index, nil)
	t.fast.reclaimer.freeTrack(t.index)
}

// Receive announces a stream of a publisher, whose objects begin at offset start and inherit priority. The returned
// function must be called when all of the stream has been read. Receive waits for another stream that the publisher
// has begun the subgroup with.
func (t *ForwardedTrack) Receive(
	from claim.ForwarderConn, id int64, h moqt.SubgroupHeader, priority uint8, start int64,
) (end func()) {
	publisher, _ := from.(*conn)
	if t == nil || publisher == nil {
		return func() {}
	}
	stream := uint64(id)
	publisher.beginReading(stream)
	if h.SubgroupIDMode != moqt.SubgroupIDFirstObject { // else see Identify
		t.register(publisher, stream, h, priority, start)
		publisher.awaitFirst(stream, bpf.SubgroupKey{
			Group: h.GroupID, Subgroup: h.SubgroupID, Track: t.index, Publisher: publisher.index,
		})
	}
	return func() {
		t.end(publisher, stream)
		publisher.reading.Add(-1)
	}
}

// AwaitRead returns when the media sender has all streams of the track that the kernel has opened for these subscribers
// of a publisher: the packets with their beginnings may have been lost behind the kernel. Nobody wants other ones.
func (t *ForwardedTrack) AwaitRead(ctx context.Context, from claim.ForwarderConn, to []claim.ForwarderConn) {
	if publisher, _ := from.(*conn); t != nil && publisher != nil {
		publisher.awaitRead(ctx, t.index, to)
	}
}

// Identify announces a stream whose subgroup is known only now, from its first object.
func (t *ForwardedTrack) Identify(
	from claim.ForwarderConn, id int64, h moqt.SubgroupHeader, subgroup uint64, priority uint8, start int64,
) {
	if publisher, _ := from.(*conn); t != nil && publisher != nil {
		h.SubgroupID = subgroup
		t.register(publisher, uint64(id), h, priority, start)
	}
}

// GoOn announces a stream that downstream streams go on with. The kernel has not seen its beginning, and need not
// forward the publisher's data yet.
func (t *ForwardedTrack) GoOn(
	from claim.ForwarderConn, id int64, h moqt.SubgroupHeader, subgroup uint64, priority uint8, start int64,
) {
	publisher, _ := from.(*conn)
	if t == nil || publisher == nil || !t.fast.enter() {
		return
	}
	defer t.fast.exit()
	h.SubgroupID = subgroup
	publisher.goOn(uint64(id), t.subgroup(h, priority, start))
}

// register makes a stream known that the kernel has not seen the beginning of.
func (t *ForwardedTrack) register(publisher *conn, stream uint64, h moqt.SubgroupHeader, priority uint8, start int64) {
	if !t.fast.enter() {
		return
	}
	defer t.fast.exit()
	t.mu.Lock()
	defer t.mu.Unlock()
	at := subgroupAt(h.GroupID, h.SubgroupID)
	if t.from != publisher || stream < t.fast.kernel.publishers[publisher.index].FirstStream {
		t.raiseSubgroupLocked(publisher, at)
		return
	}
	key := bpf.StreamKey{StreamId: stream, Publisher: publisher.index}
	err := t.fast.kernel.addSubgroup(key, t.subgroup(h, priority, start))
	if err == nil || errors.Is(err, ebpf.ErrKeyExist) { // the kernel was faster
		return
	}
	publisher.raiseFirstStream(stream) // the kernel must not find room for it later, when the stream is user space's
	t.raiseSubgroupLocked(publisher, at)
	if !errors.Is(err, errShare) {
		t.fast.report("register a subgroup", err)
	}
}

func (t *ForwardedTrack) subgroup(h moqt.SubgroupHeader, priority uint8, start int64) bpf.Subgroup {
	h = Forwarded(h, h.SubgroupID, priority)
	return bpf.Subgroup{
		Group: h.GroupID, Subgroup: h.SubgroupID, Track: t.index, HeaderLen: uint32(start),
		HeaderType: uint8(knownLayout.SubgroupType(h)), Priority: priority,
	}
}

// errShare means that the publisher has as many entries as one may have.
var errShare = errors.New("the publisher has its share")

// end notes that a stream has been read. The kernel's streams for it that the media sender does not have are abandoned
// when no run is left that may open one.
func (t *ForwardedTrack) end(publisher *conn, stream uint64) {
	if !t.fast.enter() {
		return
	}
	defer t.fast.exit()
	t.mu.Lock()
	forwarded := t.from == publisher
	t.mu.Unlock()
	publisher.end(stream, forwarded)
	t.fast.reclaimer.afterRuns(func() { t.abandon(publisher, stream) })
}

// abandon resets the streams that the kernel has opened for a stream that has been read to its end, unless the media
// sender has them.
func (t *ForwardedTrack) abandon(publisher *conn, stream uint64) {
	if !publisher.wasServed() {
		return // the sweep has done it
	}
	for _, i := range t.connections() {
		t.fast.abandonUnadopted(bpf.DownstreamKey{StreamId: stream, Publisher: publisher.index, Subscriber: i})
	}
}

// connections returns the indices of the connections that have been in the list, and forgets the ended ones.
func (t *ForwardedTrack) connections() []uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	listed := slices.Collect(maps.Keys(t.listed))
	for _, i := range listed {
		if t.fast.conns.get(i) == nil {
			delete(t.listed, i)
		}
	}
	return listed
}

// ClaimObject claims an object that came in a datagram, so that the kernel sends it to no more subscribers. It returns
// the subscribers to whom the kernel has sent it already.
func (t *ForwardedTrack) ClaimObject(at moqt.Location) (sent []Subscriber) {
	if t == nil || !t.fast.enter() {
		return nil
	}
	defer t.fast.exit()
	if t.fast.tracks.get(t.index) != t {
		return nil // closed
	}
	key := bpf.ObjectKey{Group: at.Group, Object: at.Object, Track: t.index}
	err := t.claim(key)
	if err == nil {
		return nil
	}
	if !errors.Is(err, ebpf.ErrKeyExist) { // there is no room, or the track is not on the fast path
		t.raise(at)
	}
	state, ok := t.awaitDone(key)
	if !ok {
		return nil
	}
	return t.sentTo(state)
}

// claim claims an object of a track that is on the fast path.
func (t *ForwardedTrack) claim(key bpf.ObjectKey) error {
	t.mu.Lock()
	from := t.from
	t.mu.Unlock()
	if from == nil {
		return ebpf.ErrKeyNotExist
	}
	return t.fast.kernel.addObject(key, from.index)
}

// awaitDone waits until the kernel, on another CPU, sends an object to no more subscribers, and returns the state of
// the claim. The wait is short, since the packet with the object has reached user space. If it takes too long,
// awaitDone answers as if the kernel had sent the object to all subscribers: some may miss it, but none gets it twice.
func (t *ForwardedTrack) awaitDone(key bpf.ObjectKey) (state uint64, ok bool) {
	var claim bpf.ObjectClaim
	done := t.fast.kernel.spin(func() bool {
		ok = t.fast.kernel.tables.Objects.Lookup(key, &claim) == nil
		return !ok || claim.State&objectDone != 0
	})
	if !done {
		return claim.State | objectSentToAll, true
	}
	return claim.State, ok
}

// sentTo decodes the state of a claim. It has no version until the kernel, which may be late, has found the list.
func (t *ForwardedTrack) sentTo(state uint64) (sent []Subscriber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version := uint32(state>>objectVersionShift) & objectVersionMask
	for _, o := range t.offered {
		if o.version != version && version != 0 {
			continue
		}
		for i, s := range o.subscribers {
			if state>>i&1 != 0 {
				sent = append(sent, s)
			}
		}
	}
	return sent
}

// offerLocked notes which list of subscribers the kernel is about to get, and returns its version.
func (t *ForwardedTrack) offerLocked(subscribers []Subscriber) uint32 {
	now := time.Now()
	t.offered = slices.DeleteFunc(t.offered, func(o offered) bool {
		return !o.until.IsZero() && now.Sub(o.until) > objectFor
	})
	if n := len(t.offered); n > 0 {
		t.offered[n-1].until = now
	}
	t.version = t.version%objectVersionMask + 1
	t.offered = append(t.offered, offered{version: t.version, subscribers: subscribers})
	return t.version
}

// Passed returns the first location behind all objects in datagrams that the kernel may have sent.
func (t *ForwardedTrack) Passed() (passed moqt.Location) {
	if t == nil || !t.fast.enter() {
		return passed
	}
	defer t.fast.exit()
	keysOf(t.fast.kernel.tables.Objects, func(k *bpf.ObjectKey, _ *bpf.ObjectClaim) bool {
		if at := locationOf(k); k.Track == t.index && !at.Less(passed) {
			passed = at.Next()
		}
		return false
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if passed.Less(t.first) {
		return t.first // it is behind the claims that are forgotten
	}
	return passed
}

// raise stops the kernel from sending objects up to and including at.
func (t *ForwardedTrack) raise(at moqt.Location) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raiseLocked(&t.first, at)
}

// raiseSubgroupLocked stops the kernel from opening streams for a publisher's subgroups up to and including at, see
// subgroupAt.
func (t *ForwardedTrack) raiseSubgroupLocked(publisher *conn, at moqt.Location) {
	if publisher == t.last {
		t.raiseLocked(&t.fresh, at)
	}
}

// raiseLocked raises a limit beyond at.
func (t *ForwardedTrack) raiseLocked(limit *moqt.Location, at moqt.Location) {
	if at == lastLocation || !limit.Less(at.Next()) {
		return
	}
	*limit = at.Next()
	if t.applied == nil {
		return
	}
	parts := slices.Clone(t.applied)
	for i := range parts {
		parts[i].FirstGroup, parts[i].FirstObject = t.first.Group, t.first.Object
		parts[i].FreshGroup, parts[i].FreshSubgroup = t.fresh.Group, t.fresh.Object
	}
	t.putLocked(parts)
}

// subgroupAt returns the place of a subgroup in its track. Its Object is the id of the subgroup.
func subgroupAt(group, subgroup uint64) moqt.Location {
	return moqt.Location{Group: group, Object: subgroup}
}

const (
	objectDone         = uint64(bpf.IngressObjectLayoutOBJECT_DONE)
	objectVersionShift = bpf.IngressObjectLayoutVERSION_SHIFT
	objectVersionMask  = 1<<31 - 1
	objectSentToAll    = 1<<objectVersionShift - 1
	// objectFor is how long the claim of an object is kept: longer than its packet takes from the kernel to user space.
	// After that its track's first location keeps the kernel from sending it again.
	objectFor = 10 * time.Second
)

// offered is the beginning of a list of subscribers that the kernel has, or had: those that may get objects in
// datagrams.
type offered struct {
	version     uint32
	subscribers []Subscriber
	until       time.Time // zero: the kernel still has the list
}

func locationOf(k *bpf.ObjectKey) moqt.Location {
	return moqt.Location{Group: k.Group, Object: k.Object}
}

// lastLocation is the last of all locations.
var lastLocation = moqt.Location{Group: math.MaxUint64, Object: math.MaxUint64}
