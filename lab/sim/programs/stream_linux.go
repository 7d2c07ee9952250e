package programs

import (
	"sync/atomic"

	"sluice/claim"
	"sluice/fastpath"
	"sluice/fastpath/bpf"
	"sluice/moqt"
)

const (
	copyWork    = 500 // what the fixed part of a copy counts as, in bytes
	streamShare = uint32(bpf.IngressCapacitySTREAM_SHARE)
	partLen     = int(bpf.IngressCapacityPART_LEN)
)

// forwardStream offers a STREAM frame to the subscribers of its track.
func (r *run) forwardStream(publisher uint32, f *frame) {
	if len(f.data) == 0 && !f.fin {
		r.count(bpf.IngressReasonFRAME_EMPTY)
		return
	}
	h := parseSubgroupHeader(f)
	key := bpf.StreamKey{StreamId: f.stream, Publisher: publisher}
	g, opens, why := r.findSubgroup(key, &h)
	if why != bpf.IngressReasonFRAME_FORWARDED {
		r.count(why)
		return
	}
	r.step()
	version := atomic.LoadUint64(&r.machine.TrackVersions[g.Track])
	part, ok := r.findPart(g.Track, version, 0)
	if !ok || part.Publisher != publisher {
		r.count(bpf.IngressReasonFRAME_NO_TRACK)
		return
	}
	r.count(bpf.IngressReasonFRAME_FORWARDED)
	r.step()
	r.eachSubscription(part, g.Track, version, func(_ int, sub *bpf.Subscription) {
		c := streamCopy{
			frame: f, header: h.len, group: &g, sub: sub, opens: opens,
			key:      bpf.DownstreamKey{StreamId: f.stream, Publisher: publisher, Subscriber: sub.Subscriber},
			outgoing: outgoing{run: r, subscriber: sub.Subscriber},
		}
		r.countCopy(c.subscriber, c.make())
	})
}

// eachSubscription calls offer with the subscriptions of a track and their numbers, as far as the run may make copies.
func (r *run) eachSubscription(part bpf.Track, track uint32, version uint64, offer func(int, *bpf.Subscription)) {
	count := int(part.Count)
	for i := range min(count, r.habits.Budget) {
		if i%partLen == 0 && i > 0 {
			var ok bool
			if part, ok = r.findPart(track, version, uint32(i/partLen)); !ok {
				return
			}
		}
		offer(i, &part.Subscriptions[i%partLen])
	}
	if count > r.habits.Budget {
		r.count(bpf.IngressReasonCOPY_BUDGET)
	}
}

func (r *run) countCopy(subscriber uint32, why bpf.Reason) {
	r.count(why)
	atomic.AddUint64(&r.machine.Copies[subscriber].ByReason[why-bpf.IngressReasonCOPY_SENT], 1)
}

func (r *run) findPart(track uint32, version uint64, part uint32) (bpf.Track, bool) {
	if version == 0 {
		return bpf.Track{}, false
	}
	return r.tracks.get(bpf.VersionKey{Version: version, Index: track, Part: part})
}

// findSubgroup returns the subgroup of a stream, which it registers if the frame has a header, and whether this run may
// open streams for it.
func (r *run) findSubgroup(key bpf.StreamKey, h *subgroupHeader) (g bpf.Subgroup, opens bool, why bpf.Reason) {
	g, known := r.subgroups.get(key)
	r.step()
	if _, ended := r.ended.get(key); ended {
		return g, false, bpf.IngressReasonFRAME_ENDED
	}
	switch {
	case known:
		return g, false, bpf.IngressReasonFRAME_FORWARDED
	case h.len == 0:
		return g, false, bpf.IngressReasonFRAME_NOT_MEDIA
	}
	r.step()
	index, ok := r.aliases.get(bpf.AliasKey{Alias: h.TrackAlias, Publisher: key.Publisher})
	if !ok {
		return g, false, bpf.IngressReasonFRAME_NO_TRACK
	}
	t, ok := r.findPart(index, atomic.LoadUint64(&r.machine.TrackVersions[index]), 0)
	if !ok || t.Publisher != key.Publisher || t.Alias != h.TrackAlias {
		return g, false, bpf.IngressReasonFRAME_NO_TRACK
	}
	if key.StreamId < atomic.LoadUint64(&r.machine.Publishers[key.Publisher].FirstStream) {
		return g, false, bpf.IngressReasonFRAME_ENDED
	}
	if h.DefaultPriority {
		h.Priority = uint8(t.DefaultPriority)
	}
	forwarded := fastpath.Forwarded(h.SubgroupHeader, h.SubgroupID, h.Priority)
	g = bpf.Subgroup{
		Group: h.GroupID, Subgroup: h.SubgroupID, Track: index, HeaderLen: uint32(h.len),
		HeaderType: uint8(layout.SubgroupType(forwarded)), Priority: h.Priority,
	}
	own, all := r.held(key.Publisher, bpf.IngressShareKindSHARE_SUBGROUPS)
	if !mayHold(own, all) {
		return g, false, bpf.IngressReasonFRAME_SHARE
	}
	opens = !r.hasEarlier(&g, key)
	r.step()
	if r.subgroups.insert(key, g) != nil {
		return g, false, bpf.IngressReasonFRAME_NO_SLOT
	}
	atomic.AddUint32(own, 1)
	atomic.AddUint32(all, 1)
	if g, ok = r.subgroups.get(key); !ok {
		return g, false, bpf.IngressReasonFRAME_ENDED
	}
	return g, opens, bpf.IngressReasonFRAME_FORWARDED
}

// hasEarlier reports whether another stream of the publisher brought the subgroup of a stream first, or may have, see
// has_earlier.
func (r *run) hasEarlier(g *bpf.Subgroup, stream bpf.StreamKey) bool {
	key := bpf.SubgroupKey{Group: g.Group, Subgroup: g.Subgroup, Track: g.Track, Publisher: stream.Publisher}
	_ = r.first.insert(key, stream.StreamId) // fails if there is one
	first, ok := r.first.get(key)
	if !ok || first != stream.StreamId {
		return true
	}
	r.step()
	t, ok := r.findPart(g.Track, atomic.LoadUint64(&r.machine.TrackVersions[g.Track]), 0)
	fresh := moqt.Location{Group: t.FreshGroup, Object: t.FreshSubgroup}
	return !ok || moqt.Location{Group: g.Group, Object: g.Subgroup}.Less(fresh)
}

// held returns how many entries of a kind were made for a publisher, and for all.
func (k *Kernel) held(publisher uint32, kind bpf.IngressShareKind) (own, all *uint32) {
	return &k.machine.HeldByEach[publisher].Entries[kind], &k.machine.HeldByAll[0].Entries[kind]
}

// mayHold reports whether a publisher may have one more entry.
func mayHold(own, all *uint32) bool {
	used := atomic.LoadUint32(all)
	return used < maxEntries && atomic.LoadUint32(own) < maxEntries-used
}

// streamCopy is the copy of a STREAM frame for one subscriber.
type streamCopy struct {
	outgoing
	frame  *frame
	header int  // bytes at the beginning of the frame that each hop writes anew
	opens  bool // the run may open the stream
	group  *bpf.Subgroup
	sub    *bpf.Subscription
	key    bpf.DownstreamKey

	state    *claim.StreamState
	opened   bool   // this run has opened the stream
	prefix   []byte // that it begins with
	from, to int64  // log offsets
	offset   int64  // in the stream, of what the packet has
}

// make makes and sends the copy, see copy_stream.
func (c *streamCopy) make() bpf.Reason {
	if why := c.findRoute(len(c.frame.data)); why != bpf.IngressReasonCOPY_SENT {
		return why
	}
	c.step()
	if why := c.findStream(); why != bpf.IngressReasonCOPY_SENT {
		return why
	}
	c.step()
	if !c.opened && c.state.Phase.Load() != claim.StreamOpen {
		return bpf.IngressReasonCOPY_NOT_OPEN
	}
	c.prepare()
	if why := c.claim(); why != bpf.IngressReasonCOPY_SENT {
		if c.opened {
			c.step()
			c.state.Phase.Store(claim.StreamAbandoned)
		}
		return why
	}
	c.budget -= copyWork + c.dataLen
	c.step()
	packet := c.seal(c.write())
	c.step()
	if c.opened {
		c.state.Phase.Store(claim.StreamOpen)
	}
	c.step()
	return c.sendClone(packet)
}

// findStream finds the subscriber's stream, or opens it if this run may.
func (c *streamCopy) findStream() bpf.Reason {
	if slot, ok := c.downstreams.get(c.key); ok {
		c.step()
		if again, ok := c.downstreams.get(c.key); !ok || again != slot || int(slot) >= len(c.machine.Streams) {
			return bpf.IngressReasonCOPY_NOT_OPEN
		}
		c.state = &c.machine.Streams[slot]
		return bpf.IngressReasonCOPY_SENT
	}
	if !c.opens {
		return bpf.IngressReasonCOPY_NOT_OPEN
	}
	if !wantsSubgroup(c.sub, c.group) {
		return bpf.IngressReasonCOPY_FILTERED
	}
	c.opened = true
	if why := c.mayOpen(); why != bpf.IngressReasonCOPY_SENT {
		return why
	}
	return c.openStream()
}

// wantsSubgroup reports whether a subscription's range begins no later than the subgroup's first object.
func wantsSubgroup(s *bpf.Subscription, g *bpf.Subgroup) bool {
	if s.Forward == 0 || g.Group > s.EndGroup {
		return false
	}
	return g.Group > s.StartGroup || g.Group == s.StartGroup && s.StartObject == 0
}

// mayOpen reports whether the first packet of the stream may go, see may_open.
func (c *streamCopy) mayOpen() bpf.Reason {
	c.prefix = c.makePrefix()
	c.measure(c.conn.NextUni.Load(), 0)
	if why := c.admit(c.level()); why != bpf.IngressReasonCOPY_SENT {
		return why
	}
	c.step()
	switch {
	case uint64(c.dataLen) > c.path.StreamLimit:
		return bpf.IngressReasonCOPY_STREAM_CREDIT
	case c.conn.DataAvailable() < int64(c.dataLen):
		return bpf.IngressReasonCOPY_CONNECTION_CREDIT
	case !c.conn.Room(c.ledgerOf(c.subscriber)):
		return bpf.IngressReasonCOPY_LEDGER_FULL
	}
	return bpf.IngressReasonCOPY_SENT
}

// level is Subscriber Priority and Publisher Priority.
func (c *streamCopy) level() uint32 { return uint32(c.sub.Priority)<<8 | uint32(c.group.Priority) }

// openStream opens the stream: the slot is published before the id is taken, see open_stream.
func (c *streamCopy) openStream() bpf.Reason {
	if c.conn.Slots.Load() >= streamShare {
		return bpf.IngressReasonCOPY_STREAM_SHARE
	}
	slot, ok := c.free.pop()
	if !ok {
		return bpf.IngressReasonCOPY_NO_SLOT
	}
	st := &c.machine.Streams[slot]
	st.Phase.Store(claim.StreamOpening)
	st.Next.Store(uint64(c.group.HeaderLen))
	st.Delta.Store(uint64(len(c.prefix)) - uint64(c.group.HeaderLen))
	st.Limit.Store(c.path.StreamLimit)
	st.Level.Store(c.level())
	st.Alias.Store(c.sub.Alias)
	c.step()
	if c.chance(c.habits.Early) {
		c.wait()
	}
	if c.downstreams.insert(c.key, slot) != nil {
		c.free.push(slot)
		return bpf.IngressReasonCOPY_NOT_OPEN
	}
	if c.chance(c.habits.Opening) {
		c.wait()
	}
	c.conn.Slots.Add(1)
	id, ok := c.conn.TakeStream()
	if !ok {
		st.ID.Store(claim.NoStream)
		c.step()
		st.Phase.Store(claim.StreamAbandoned)
		return bpf.IngressReasonCOPY_STREAM_LIMIT
	}
	st.ID.Store(uint64(id))
	c.step()
	c.state = st
	return bpf.IngressReasonCOPY_SENT
}
