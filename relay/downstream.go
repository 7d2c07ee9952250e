package relay

import (
	"slices"
	"sync"
	"time"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
)

// finishTimeout is how long the streams of a subscription that has ended may take to be delivered.
const finishTimeout = 30 * time.Second

// maxShunned is how many subgroups of a subscription are remembered that must not be sent again. Objects come to older ones rarely.
const maxShunned = 64

// downstream is a subscription of a peer to a track (draft §5.1), which began with its SUBSCRIBE or with a PUBLISH of the relay.
type downstream struct {
	hub     *hub
	peer    *peer
	pub     *session.Publication
	offered bool          // by PUBLISH
	permit  *lease        // run's, once accepted
	until   time.Time     // when the peer no longer waits for a publisher; zero if it never did
	ready   chan struct{} // closed when accepted

	// Guarded by hub.mu.
	accepted bool // Established, or offered
	over     bool
	fast     bool // in hub.fastest
	forward  bool // Forward State
	resumes  bool // it becomes 1 as soon as publishers forward
	filter   *moqt.Filter
	wanted   moqt.Range // what passes the filter
	data     holdBack
	outlet   OutletSubscription
	former   []OutletSubscription // of a group order that was not the subscriber's

	// Callbacks of the outlet come with hub.mu held or not; what they change has a lock of its own.
	mu         sync.Mutex
	deliveries map[*track.Segment]*delivery
	shunned    []subgroupID
	streams    uint64 // that were opened
	ending     *moqt.PublishDone
}

type subgroupID struct{ group, subgroup uint64 }

// delivery is a segment that is being sent, or that will be when an object of it comes.
type delivery struct {
	stream OutletStream
	joiner *joiner
}

func newDownstream(h *hub, p *peer, params *moqt.Parameters, permit *lease) *downstream {
	return &downstream{
		hub:        h,
		peer:       p,
		ready:      make(chan struct{}),
		permit:     permit,
		data:       holdBack{active: true},
		forward:    params.ForwardState(),
		filter:     params.Filter,
		wanted:     moqt.Everything,
		deliveries: make(map[*track.Segment]*delivery),
	}
}

// openOutlet starts sending as the parameters say; hub.mu is held.
func (d *downstream) openOutlet(p *moqt.Parameters) {
	object, subgroup := d.timeouts(p)
	d.outlet = d.peer.outlet.NewSubscription(media.SubscriptionConfig{
		Priority:        p.Priority(),
		Descending:      p.Order(d.hub.properties.DefaultPublisherGroupOrder()) == moqt.Descending,
		ObjectTimeout:   object,
		SubgroupTimeout: subgroup,
		ErrorCode:       d.peer.conn.StreamErrorCode,
		Owner:           d,
	})
}

// timeouts are the delivery timeouts in force (draft §8). An object that must not be served any more because of MAX_CACHE_DURATION (draft
// §12.3) has timed out too.
func (d *downstream) timeouts(p *moqt.Parameters) (object, subgroup time.Duration) {
	props := d.hub.properties
	object = shorter(p.ObjectDeliveryTimeout, props.ObjectDeliveryTimeout())
	subgroup = shorter(p.SubgroupDeliveryTimeout, props.SubgroupDeliveryTimeout())
	if ms, ok := props.MaxCacheDuration(); ok {
		object = shorter(&ms, uint64(object/time.Millisecond))
	}
	return object, subgroup
}

// shorter combines what the subscriber and the publisher want, in milliseconds; 0 is no timeout.
func shorter(subscriber *uint64, publisher uint64) time.Duration {
	if subscriber == nil || *subscriber == 0 || publisher != 0 && publisher < *subscriber {
		return moqt.Milliseconds(publisher)
	}
	return moqt.Milliseconds(*subscriber)
}

// consider sends what the subscriber wants of a segment, from object from on; hub.mu is held.
func (d *downstream) consider(seg *track.Segment, from uint64) {
	d.data.do(func() { d.begins(seg, from) })
}

func (d *downstream) begins(seg *track.Segment, from uint64) {
	if !d.forward || seg.Group < d.wanted.Start.Group || seg.Group > d.wanted.End.Group || d.isKnown(seg) {
		return
	}
	if seg.Group == d.wanted.Start.Group {
		from = max(from, d.wanted.Start.Object)
	}
	if o, ok := seg.Log.Seek(from); ok {
		d.send(seg, o)
	} else if state, _ := seg.Log.State(); state == track.Open {
		d.await(seg, from)
	}
}

// isKnown reports whether a segment is being sent, or must not be.
func (d *downstream) isKnown(seg *track.Segment) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deliveries[seg] != nil || slices.Contains(d.shunned, subgroupID{seg.Group, seg.Subgroup})
}

// send opens a stream that begins with object o; hub.mu is held.
func (d *downstream) send(seg *track.Segment, o track.Object) {
	v := &delivery{}
	d.mu.Lock()
	d.deliveries[seg] = v
	d.mu.Unlock()
	stream, err := d.outlet.OpenStream(media.StreamConfig{
		Prefix:          d.prefix(seg, o),
		Log:             seg.Log,
		Start:           o.IDEnd,
		Group:           seg.Group,
		Subgroup:        seg.Subgroup,
		Priority:        seg.Priority,
		PublisherStream: d.upstream(seg),
		OnDone:          func(res media.Result) { d.sent(seg, res) },
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		delete(d.deliveries, seg)
		return
	}
	v.stream = stream
}

// prefix is what precedes the log's bytes on the subscriber's stream: they are the same for all.
func (d *downstream) prefix(seg *track.Segment, o track.Object) []byte {
	b := slices.Clone(d.peer.conn.StreamPrefix())
	b = moqt.AppendSubgroupHeader(b, d.peer.session.Version(), moqt.SubgroupHeader{
		TrackAlias:     d.pub.Alias(),
		GroupID:        seg.Group,
		SubgroupIDMode: subgroupIDMode(seg.Subgroup),
		SubgroupID:     seg.Subgroup,
		Priority:       seg.Priority,
		HasProperties:  seg.HasProperties,
		EndOfGroup:     seg.EndOfGroup,
		FirstObject:    seg.FirstObject && o.ID == seg.First,
	})
	return moqt.AppendVarint(b, o.ID)
}

func subgroupIDMode(id uint64) moqt.SubgroupIDMode {
	if id == 0 {
		return moqt.SubgroupIDZero
	}
	return moqt.SubgroupIDPresent
}

// sent is called when nothing more of a segment will be sent.
func (d *downstream) sent(seg *track.Segment, res media.Result) {
	d.mu.Lock()
	delete(d.deliveries, seg)
	if res.ID >= 0 {
		d.streams++
	}
	switch res.Outcome {
	case media.Stopped, media.ObjectTimedOut, media.SubgroupTimedOut, media.Dropped:
		// No further stream for the rest of the subgroup (draft §8, §11.4.3).
		if len(d.shunned) == maxShunned {
			d.shunned = slices.Delete(d.shunned, 0, 1)
		}
		d.shunned = append(d.shunned, subgroupID{seg.Group, seg.Subgroup})
	}
	d.mu.Unlock()
	d.hub.relay.metrics.streams.WithLabelValues(res.Outcome.String()).Inc()
	d.conclude()
}

// drop stops sending the segments for which unwanted is true; hub.mu is held.
func (d *downstream) drop(unwanted func(*track.Segment) bool) {
	var streams []OutletStream
	d.mu.Lock()
	for seg, v := range d.deliveries {
		if !unwanted(seg) {
			continue
		}
		if v.stream != nil {
			streams = append(streams, v.stream)
		} else if v.joiner != nil {
			v.joiner.close()
			delete(d.deliveries, seg)
		}
	}
	d.mu.Unlock()
	for _, s := range streams {
		s.Reset(uint64(moqt.ResetCancelled))
	}
}

// finish ends the subscription with PUBLISH_DONE, after its streams were delivered or, if there is a code, reset; hub.mu is held.
func (d *downstream) finish(code moqt.PublishDoneCode, reason string, reset *moqt.StreamResetCode) {
	if !d.leave() {
		return
	}
	d.data.release()
	d.dropJoiners()
	d.mu.Lock()
	d.ending = &moqt.PublishDone{Status: code, Reason: reason}
	d.mu.Unlock()
	if reset != nil {
		d.closeOutlets(*reset)
	} else {
		time.AfterFunc(finishTimeout, d.giveUp)
	}
	d.conclude()
}

// giveUp ends the wait for the last streams.
func (d *downstream) giveUp() {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	d.closeOutlets(moqt.ResetCancelled)
}

// conclude sends PUBLISH_DONE when the last stream is closed.
func (d *downstream) conclude() {
	d.mu.Lock()
	done := d.ending
	if done == nil || len(d.deliveries) > 0 {
		d.mu.Unlock()
		return
	}
	d.ending = nil
	streams := d.streams
	d.mu.Unlock()
	d.pub.AddStreams(streams)
	_ = d.pub.Done(done.Status, done.Reason) // fails only if the peer has ended it
}

// ended forgets a subscription whose request is over.
func (d *downstream) ended() {
	h := d.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	d.leave()
	d.dropJoiners()
	if d.outlet != nil {
		d.closeOutlets(moqt.ResetCancelled)
	}
}

// leave takes the subscription out of the hub, and reports whether it was in it; hub.mu is held.
func (d *downstream) leave() bool {
	if d.over {
		return false
	}
	d.over = true
	delete(d.hub.down, d)
	d.hub.refresh()
	return true
}

func (d *downstream) dropJoiners() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for seg, v := range d.deliveries {
		if v.joiner != nil && v.stream == nil {
			v.joiner.close()
			delete(d.deliveries, seg)
		}
	}
}

func (d *downstream) closeOutlets(code moqt.StreamResetCode) {
	for _, o := range append(d.former, d.outlet) {
		o.Close(uint64(code))
	}
}

// sendDatagram sends an object to the subscribers that want it, but those to whom the fast path has sent it.
func (h *hub) sendDatagram(o *track.Datagram) {
	at := moqt.Location{Group: o.Group, Object: o.ID}
	sent := h.fast.ClaimObject(at)
	h.mu.Lock()
	defer h.mu.Unlock()
	for d := range h.down {
		if d.accepted && d.forward && d.wanted.Contains(at) && !d.isIn(sent) {
			d.data.do(func() { d.sendDatagram(o) })
		}
	}
}

func (d *downstream) sendDatagram(o *track.Datagram) {
	header, err := moqt.AppendDatagramHeader(slices.Clone(d.peer.conn.DatagramPrefix()), d.peer.session.Version(), &moqt.ObjectDatagram{
		TrackAlias: d.pub.Alias(),
		Location:   moqt.Location{Group: o.Group, Object: o.ID},
		Priority:   o.Priority,
		EndOfGroup: o.EndOfGroup,
		Status:     o.Status,
		Properties: o.Properties,
		Payload:    o.Payload, // decides on the type, and is not appended
	})
	if err != nil {
		return // unreachable: it was received in this form
	}
	_ = d.outlet.SendDatagram(media.Datagram{ // fails only if the session has ended
		Header: header, Payload: o.Payload, Group: o.Group, Object: o.ID, Priority: o.Priority, Received: o.Received,
	})
}
