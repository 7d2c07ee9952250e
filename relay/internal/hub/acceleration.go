package hub

import (
	"cmp"
	"context"
	"slices"

	"sluice/claim"
	"sluice/fastpath"
	"sluice/moqt"
	"sluice/track"
)

// acceleration is the part of a track's forwarding that the fast path does. All methods but identify and announce
// expect Hub.mu to be held.
type acceleration struct {
	hub   *Hub
	track *fastpath.ForwardedTrack // nil if there is no fast path: its methods do nothing
	from  *upstream                // the publisher whose objects the kernel forwards, or nil
}

// update adapts the fast path to the present publishers and subscribers.
func (a *acceleration) update() {
	h := a.hub
	u := h.publishers.only() // the objects of several are compared, which the kernel does not do
	if a.track == nil {
		return
	}
	limit := (*h.directory.policy.Load())(h.name, len(h.subscribers.all))
	limit = min(limit, h.directory.FastPath.MaxSubscribers())
	if u == nil || u.peer.Forwarder == nil || u.limited || limit <= 0 {
		a.from = nil
		a.track.Forward(nil, 0, 0, nil)
		return
	}
	alias, known := u.sub.Alias()
	if !known {
		return // it has ended, which will be noticed
	}
	priority := h.description.properties.DefaultPublisherPriority()
	a.track.Forward(u.peer.Forwarder, alias, priority, a.choose(u, limit))
	if a.from != u {
		a.from = u
		a.goOn()
	}
}

// goOn has the kernel forward the rest of the streams that the publisher began before the kernel forwarded the track.
func (a *acceleration) goOn() {
	now := a.hub.data.Position()
	defer now.Close()
	for _, s := range now.Open {
		if source, ok := s.Log.Origin().Owner.(*arriving); ok && source.conn == a.from.peer.Forwarder {
			a.announce(s.Segment, source)
		}
	}
}

// announce tells the fast path of a stream of a publisher, whose beginning the kernel has not seen.
func (a *acceleration) announce(seg *track.Segment, source *arriving) {
	a.track.GoOn(source.conn, source.id, source.header, seg.Subgroup, seg.Priority, source.start)
}

// forwarded returns what waits until the media sender has all streams that the kernel has opened for the publisher and
// the present subscribers, if the kernel forwards the track. Otherwise objects that come in another way could come
// first, and subscribers would get them on a second stream. The kernel must not forward them any more.
func (a *acceleration) forwarded() (await func(context.Context)) {
	if a.from == nil {
		return func(context.Context) {}
	}
	from, to := a.from.peer.Forwarder, []claim.ForwarderConn(nil)
	for d := range a.hub.subscribers.all {
		to = append(to, d.peer.Forwarder)
	}
	return func(ctx context.Context) {
		a.hub.directory.FastPath.AwaitRuns()
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		a.track.AwaitRead(ctx, from, to)
	}
}

// choose chooses the subscribers that the fast path serves, up to limit, and describes them for the objects of an
// upstream. Those that it serves already come first.
func (a *acceleration) choose(u *upstream, limit int) (list []fastpath.Subscriber) {
	var chosen []*downstream
	for _, already := range []bool{true, false} {
		for d := range a.hub.subscribers.all {
			_, ok := d.delivery.selection.forwardable()
			may := ok && d.accepted && !d.delivery.held && d.peer.Forwarder != nil
			if may && d.fast == already && len(chosen) < limit {
				chosen = append(chosen, d)
			}
		}
	}
	for d := range a.hub.subscribers.all {
		d.fast = false
	}
	slices.SortFunc(chosen, func(a, b *downstream) int { return cmp.Compare(a.number, b.number) })
	for _, d := range chosen {
		d.fast = true
		params := d.pub.Parameters()
		wanted, _ := d.delivery.selection.forwardable()
		list = append(list, fastpath.Subscriber{
			Conn: d.peer.Forwarder, Alias: d.pub.Alias(), Range: u.unrepeated(wanted),
			Forward: d.delivery.forward, Priority: params.Priority(),
		})
	}
	return list
}

// serves reports whether the kernel forwards the track to a subscriber.
func (a *acceleration) serves(d *downstream) bool { return a.from != nil && d.fast }

// identify tells the fast path which subgroup a stream carries, if its header does not.
func (a *acceleration) identify(seg *track.Segment) {
	from, ok := seg.Log.First.Owner.(*arriving)
	if ok && from.header.SubgroupIDMode == moqt.SubgroupIDFirstObject {
		a.track.Identify(from.conn, from.id, from.header, seg.Subgroup, seg.Priority, from.start)
	}
}
