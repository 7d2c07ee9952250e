package hub

import (
	"slices"
	"time"

	"sluice/fastpath"
	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/track"
)

// finishTimeout is how long the streams of a subscription that has ended may take to be delivered.
const finishTimeout = 30 * time.Second

// maxCurrent is how many objects of a group are looked at before it is sent from its start: see delivery.startLate.
const maxCurrent = 4096

// delivery sends the objects of a track that a subscriber wants. All methods expect Hub.mu to be held.
type delivery struct {
	sub       *downstream
	forward   bool // Forward State
	selection selection
	held      bool              // data waits: see holdsBack
	datagrams []*track.Datagram // that wait
	media     MediaSubscription // nil before open
	order     moqt.GroupOrder
	streams   streams

	patience time.Duration // for how long data may wait, whatever the drop policy says
}

func newDelivery(d *downstream, params *moqt.Parameters) delivery {
	return delivery{
		sub:       d,
		held:      true,
		forward:   params.ForwardState(),
		selection: newSelection(params.Filter, d.peer.Session.Version().DataLayout()),
		streams:   newStreams(d.pub, d.peer.Payers()),
	}
}

// open prepares the media sender according to the parameters.
func (v *delivery) open(p *moqt.Parameters) {
	v.order = p.Order(v.sub.hub.description.properties.DefaultPublisherGroupOrder())
	v.media = v.sub.peer.Sender(media.SubscriptionConfig{
		Priority:   p.Priority(),
		Descending: v.order == moqt.Descending,
		Timeouts:   timeoutsOf(v.sub.pub.Parameters()),
		ErrorCode:  v.sub.peer.Conn.StreamErrorCode,
		OnBehind: func(int64, time.Duration) {
			v.sub.End(moqt.DoneTooFarBehind, moqt.ResetTooFarBehind)
		},
	})
	v.media.SetPatience(v.patience)
}

// timeoutsOf returns the delivery timeouts that the subscriber wants.
func timeoutsOf(p moqt.Parameters) (t media.Timeouts) {
	if ms := p.ObjectDeliveryTimeout; ms != nil {
		t.Object = moqt.Milliseconds(*ms)
	}
	if ms := p.SubgroupDeliveryTimeout; ms != nil {
		t.Subgroup = moqt.Milliseconds(*ms)
	}
	return t
}

// setRangeFilters sets the Range Filters, and counts the subscription if the fast path does not serve it therefore.
func (v *delivery) setRangeFilters(filters moqt.RangeFilters) {
	if len(v.selection.filters) == 0 && len(filters) > 0 {
		v.sub.hub.directory.Counters.Unforwarded.WithLabelValues("range filters").Inc()
	}
	v.selection.filters = filters
}

// startLate lets the subscription begin with the current group if the filter begins after the Largest Object, and the
// subscriber is known to miss that group: with what the cache has of it, and with what is on its way from a publisher
// that was asked just now.
func (v *delivery) startLate(largest *moqt.Location) {
	s := &v.selection
	if s.filter == nil || s.filter.Type != moqt.FilterLargestObject || largest == nil ||
		!v.sub.peer.Session.Tolerates(session.MissesCurrentGroup) {
		return
	}
	s.whole = v.isHeld(*largest)
	if s.whole || len(v.sub.hub.data.Segments(largest.Group)) == 0 {
		s.passing.Start = moqt.Location{Group: largest.Group}
	}
}

// isHeld reports whether the group that ends with largest can be sent from its start without a hole, in subgroups. If
// not, a FETCH brings it.
func (v *delivery) isHeld(largest moqt.Location) bool {
	data := v.sub.hub.data
	fresh := data.Fresh()
	next := moqt.Location{Group: largest.Group}
	for range maxCurrent {
		s := data.At(moqt.Range{Start: next, End: largest}, fresh, nil)
		inDatagram := s.Datagram != nil
		s.Close()
		if s.Existence == track.Unknown || inDatagram {
			return false
		}
		if s.Range.End == largest {
			return true
		}
		next = s.Range.End.Next()
	}
	return false
}

// apply makes new parameters effective.
func (v *delivery) apply(p *moqt.Parameters, largest *moqt.Location) {
	if p.Filter != nil {
		v.selection.setFilter(p.Filter, largest)
	}
	if len(p.RangeFilters) > 0 {
		v.setRangeFilters(v.selection.updatedFilters(p))
	}
	if p.Filter != nil || len(p.RangeFilters) > 0 {
		v.sub.hub.fast.update() // before the streams are stopped that it shares
		v.streams.stop(func(s *track.Segment) bool {
			return !v.selection.hasGroup(s.Group) || !s.IsIn(v.selection.formIn(s.Group))
		})
	}
	if p.Forward != nil && *p.Forward != v.forward {
		v.setForward(*p.Forward)
	}
	all := v.sub.pub.Parameters()
	if order := p.Order(v.order); p.SubscriberPriority != nil || order != v.order {
		v.order = order
		v.media.SetOrder(all.Priority(), v.order == moqt.Descending)
	}
	if p.ObjectDeliveryTimeout != nil || p.SubgroupDeliveryTimeout != nil {
		v.media.SetTimeouts(timeoutsOf(all))
	}
}

// setForward stops the streams that must not be sent any more. When forward becomes true, subgroups that the subscriber
// did not want before may be sent again (draft §11.4.3).
func (v *delivery) setForward(forward bool) {
	v.forward = forward
	if !forward {
		v.streams.stop(func(*track.Segment) bool { return true })
		return
	}
	v.streams.forget()
}

// join sends the objects that come after a position of the track.
func (v *delivery) join(now track.Position) {
	for _, s := range now.Open {
		if from, ok := s.Next(); ok {
			v.send(s.Segment, from)
		}
	}
}

// sendCurrentGroup sends the objects of the current group that are held, from its start, if the subscriber wants them.
func (v *delivery) sendCurrentGroup(group uint64) {
	if v.selection.hasBacklog() {
		for _, seg := range v.sub.hub.data.Segments(group) {
			v.send(seg, seg.First)
		}
	}
}

// Limits of the data that waits for a response. It waits for a moment only; if it takes longer, because a peer does not
// allow the relay to send, the data overtakes the response.
const (
	maxHeld     = 256         // segments and datagrams
	maxHoldTime = time.Second // the logs of the segments stay in memory for so long
)

// holdsBack reports whether data waits until the message with the subscription's alias has been handed to the
// transport: a peer has to keep, or drop, data that overtakes that message (draft §11.4.2).
func (v *delivery) holdsBack() bool {
	if v.held && len(v.datagrams)+len(v.streams.cursors()) >= maxHeld {
		v.release()
	}
	return v.held
}

// release sends the data that was held back.
func (v *delivery) release() {
	v.held = false
	for _, c := range v.streams.cursors() {
		if c.reader != nil {
			c.look()
		}
	}
	for _, o := range v.datagrams {
		v.sendDatagramNow(o)
	}
	v.datagrams = nil
}

// send sends the objects of a segment that the subscriber wants, from object from on.
func (v *delivery) send(seg *track.Segment, from uint64) {
	if !v.forward || !v.selection.hasGroup(seg.Group) {
		return
	}
	if first := v.selection.wanted().Start; seg.Group == first.Group {
		from = max(from, first.Object)
	}
	form := v.selection.formIn(seg.Group)
	seg, copied, release := seg.Derive(form)
	if seg == nil {
		return
	}
	defer release()
	if len(form.Filters) > 0 {
		// What had to be copied counts as received: else a peer could make the relay copy more than it may receive.
		v.sub.peer.Payers().Count(charge.DownloadRate, int(copied))
	}
	held := v.holdsBack()
	if c := (&cursor{delivery: v, segment: seg, next: from}); v.streams.add(c) && (held || !c.look()) {
		c.await()
	}
}

// prefix returns the bytes that precede the log's on the subscriber's stream. It holds all that differs between
// subscribers.
func (v *delivery) prefix(seg *track.Segment, o track.Object) []byte {
	p := v.sub.peer
	b := slices.Clone(p.Conn.StreamPrefix())
	b = moqt.AppendSubgroupHeader(b, p.Session.Version(), headerOf(seg, o, v.sub.pub.Alias()))
	return v.selection.layout.AppendNumber(b, o.ID)
}

func headerOf(seg *track.Segment, o track.Object, alias uint64) moqt.SubgroupHeader {
	return fastpath.Forwarded(moqt.SubgroupHeader{
		TrackAlias: alias, GroupID: seg.Group, HasProperties: seg.HasProperties, EndOfGroup: seg.EndOfGroup,
		FirstObject: seg.FirstObject && o.ID == seg.First,
	}, seg.Subgroup, seg.Priority)
}

// sendDatagram sends an object, if the subscriber wants it.
func (v *delivery) sendDatagram(o *track.Datagram) {
	switch {
	case !v.forward || !v.selection.hasDatagram(o):
	case v.holdsBack():
		v.datagrams = append(v.datagrams, o)
	default:
		v.sendDatagramNow(o)
	}
}

func (v *delivery) sendDatagramNow(o *track.Datagram) {
	p := v.sub.peer
	prefix := slices.Clone(p.Conn.DatagramPrefix())
	object := &moqt.ObjectDatagram{
		TrackAlias: v.sub.pub.Alias(),
		Location:   moqt.Location{Group: o.Group, Object: o.ID},
		Priority:   o.Priority,
		EndOfGroup: o.EndOfGroup,
		Status:     o.Status,
		Properties: o.Properties,
		Payload:    o.Payload, // determines the type, and is not appended
	}
	header, err := moqt.AppendDatagramHeader(prefix, p.Session.Version(), object)
	if err != nil {
		return // its numbers are too large for the subscriber's version
	}
	p.QLog.Datagram(qlog.Created, object)
	_ = v.media.SendDatagram(media.Datagram{ // fails only if the session has ended
		Header: header, Payload: o.Payload, Group: o.Group, Object: o.ID, Priority: o.Priority, Received: o.Received,
		Timeouts: v.sub.hub.description.timeouts,
	})
}

// finish sends PUBLISH_DONE after the streams were delivered or, if there is a code, reset.
func (v *delivery) finish(done *moqt.PublishDone, reset *moqt.StreamResetCode) {
	v.release()
	v.streams.stopWaiting()
	v.streams.finish(done)
	if reset != nil {
		v.closeMedia(*reset)
	} else {
		v.media.Finish(uint64(moqt.ResetCancelled))
		v.sub.hub.after(finishTimeout, func() { v.closeMedia(moqt.ResetCancelled) })
	}
	v.streams.sendDone()
}

// endLater ends the subscription when Hub.mu is held no more.
func (v *delivery) endLater(code moqt.PublishDoneCode, reset moqt.StreamResetCode) {
	v.sub.hub.directory.Tasks.Go(func() { v.sub.End(code, reset) })
}

// close ends all sending.
func (v *delivery) close() {
	v.streams.stopWaiting()
	if v.media != nil {
		v.closeMedia(moqt.ResetCancelled)
	}
}

func (v *delivery) closeMedia(code moqt.StreamResetCode) {
	v.streams.stopFills()
	v.media.Close(uint64(code))
}
