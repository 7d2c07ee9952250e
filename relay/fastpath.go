package relay

import (
	"slices"

	"sluice/claim"
	"sluice/fastpath"
	"sluice/media"
	"sluice/moqt"
	"sluice/track"
	"sluice/transport"
)

// FastPathPolicy chooses who is on the fast path. It is asked whenever the subscribers of a track change, and must not block.
type FastPathPolicy interface {
	// Subscribers returns how many of a track's subscribers the kernel serves: 0 for none. They are those that it has served already, and then
	// any. The kernel's work for one packet of the track is about 4 µs for each.
	Subscribers(track moqt.FullTrackName, subscribers int) int
}

// FastPathBudget is a [FastPathPolicy] that gives each track the same number of subscribers. 0 is the default, fastpath.DefaultMaxCopies; with a negative number
// nobody is served by the fast path.
type FastPathBudget int

// Subscribers implements [FastPathPolicy].
func (b FastPathBudget) Subscribers(moqt.FullTrackName, int) int {
	if b == 0 {
		return fastpath.DefaultMaxCopies
	}
	return max(0, int(b))
}

// SetFastPathPolicy replaces the policy, for all tracks.
func (r *Relay) SetFastPathPolicy(p FastPathPolicy) {
	r.policy.Store(&p)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hubs {
		h.mu.Lock()
		h.accelerate()
		h.mu.Unlock()
	}
}

// secondOf tells the fast path about a session, if it serves the connection.
func forwarderOf(conn transport.Conn, v moqt.Version) claim.ForwarderConn {
	s, ok := conn.Hooks().(*media.Sender)
	if !ok {
		return nil
	}
	s.SetSession(claim.Session{
		StreamPrefix: conn.StreamPrefix(), DatagramPrefix: conn.DatagramPrefix(), ErrorCode: conn.StreamErrorCode, Layout: v.DataLayout(),
	})
	return s.Forwarder()
}

// accelerate adapts the fast path to the publishers and subscribers that there are; mu is held.
func (h *hub) accelerate() {
	if h.fast == nil {
		return
	}
	limit := (*h.relay.policy.Load()).Subscribers(h.name, len(h.down))
	u := h.soleUpstream()
	h.onFastPath = u != nil && u.peer.forwarder != nil && limit > 0
	if !h.onFastPath {
		h.fast.Forward(nil, 0, 0, nil)
		return
	}
	alias, known := u.sub.Alias()
	if !known {
		return // it has ended, which will be noticed
	}
	h.fast.Forward(u.peer.forwarder, alias, h.properties.DefaultPublisherPriority(), h.fastSubscribers(limit))
}

// soleUpstream returns the established upstream subscription if there is only one: objects that several publishers bring are compared, which
// the kernel does not do.
func (h *hub) soleUpstream() (found *upstream) {
	for _, u := range h.up {
		if u.established && found != nil {
			return nil
		}
		if u.established {
			found = u
		}
	}
	return found
}

// fastSubscribers chooses the subscribers that the fast path serves.
func (h *hub) fastSubscribers(limit int) []fastpath.Subscriber {
	h.fastest = slices.DeleteFunc(h.fastest, func(d *downstream) bool { return d.over })
	limit = min(limit, fastpath.MaxSubscriptions)
	for d := range h.down {
		if len(h.fastest) >= limit {
			break
		}
		if d.accepted && !d.data.active && !d.fast && d.peer.forwarder != nil {
			d.fast = true
			h.fastest = append(h.fastest, d)
		}
	}
	for len(h.fastest) > limit {
		last := len(h.fastest) - 1
		h.fastest[last].fast = false
		h.fastest = h.fastest[:last]
	}
	list := make([]fastpath.Subscriber, len(h.fastest))
	for i, d := range h.fastest {
		params := d.pub.Parameters()
		list[i] = fastpath.Subscriber{Conn: d.peer.forwarder, Alias: d.pub.Alias(), Range: d.wanted, Forward: d.forward, Priority: params.Priority()}
	}
	return list
}

// isIn says if subscribers of the fast path include d.
func (d *downstream) isIn(subscribers []fastpath.Subscriber) bool {
	return slices.ContainsFunc(subscribers, func(s fastpath.Subscriber) bool { return s.Conn == d.peer.forwarder && s.Alias == d.pub.Alias() })
}

// arriving is the owner of segments whose logs are a publisher's stream.
type arriving struct {
	conn   claim.ForwarderConn // nil: the fast path does not serve the publisher
	id     int64
	header moqt.SubgroupHeader
	start  int64 // offset of the first byte after the header
}

// upstream describes the publisher's stream to a media sender whose second sender is the fast path.
func (d *downstream) upstream(seg *track.Segment) *claim.PublisherStream {
	from, ok := seg.Owner.(*arriving)
	if !ok || from.conn == nil || d.peer.forwarder == nil {
		return nil
	}
	h := fastpath.Forwarded(from.header, seg.Subgroup, seg.Priority)
	h.TrackAlias = d.pub.Alias()
	prefix := moqt.AppendSubgroupHeader(slices.Clone(d.peer.conn.StreamPrefix()), d.peer.session.Version(), h)
	return &claim.PublisherStream{Conn: from.conn, StreamID: from.id, Prefix: prefix, Start: from.start}
}

// identify tells the fast path which subgroup a stream brings, if its header does not say that.
func (h *hub) identify(seg *track.Segment) {
	from, ok := seg.Owner.(*arriving)
	if ok && from.header.SubgroupIDMode == moqt.SubgroupIDFirstObject {
		h.fast.Identify(from.conn, from.id, from.header, seg.Subgroup, seg.Priority, from.start)
	}
}
