package pub

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// delivery sends the objects of a track for one subscription.
type delivery struct {
	track           *track
	pub             *session.Publication
	ctx             context.Context
	cancel          context.CancelCauseFunc
	objectTimeout   time.Duration // delivery timeouts that apply, 0: none
	subgroupTimeout time.Duration
	behind          chan struct{}   // a token for each group that is being sent
	moved           <-chan struct{} // closed when another session replaces the subscriber's

	mu      sync.Mutex
	allowed moqt.Range
	forward bool
	changed chan struct{}
	running int           // groups and fills that are being sent, and follow
	idle    chan struct{} // closed when there are none, and can be none any more
}

// newDelivery returns a delivery with the range and timeouts of a subscription.
func newDelivery(t *track, p *session.Publication, allowed moqt.Range, moved <-chan struct{}) *delivery {
	parameters := p.Parameters()
	d := &delivery{
		track: t, pub: p, allowed: allowed, forward: p.Forward(), changed: make(chan struct{}),
		running: 1, idle: make(chan struct{}),
		objectTimeout: moqt.DeliveryTimeout(parameters.ObjectDeliveryTimeout, t.properties.ObjectDeliveryTimeout()),
		subgroupTimeout: moqt.DeliveryTimeout(
			parameters.SubgroupDeliveryTimeout, t.properties.SubgroupDeliveryTimeout()),
		behind: make(chan struct{}, t.history.Groups+1),
		moved:  moved,
	}
	d.ctx, d.cancel = context.WithCancelCause(p.Context())
	return d
}

// run delivers until the track or the subscription ends, and then ends the subscription. If another session replaces
// this one, run first completes the current group, and the new session begins with the next.
func (d *delivery) run() {
	defer d.cancel(nil)
	go d.takeUpdates()
	_ = d.pub.Flush(d.ctx) // datagrams must not overtake the answer; fails only if the subscription has ended
	code, reason := d.follow()
	if code == moqt.DoneInternalError || code == moqt.DoneTooFarBehind {
		d.cancel(nil) // resets the streams
	}
	d.finished()
	<-d.idle
	_ = d.pub.Done(code, reason) // fails only if the subscriber has left
}

// spawn calls f on a goroutine that run waits for. After run has waited, it returns false and does not call f.
func (d *delivery) spawn(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == 0 {
		return false
	}
	d.running++
	go func() {
		defer d.finished()
		f()
	}()
	return true
}

func (d *delivery) finished() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running--; d.running == 0 {
		close(d.idle)
	}
}

// follow starts to send each group that is published.
func (d *delivery) follow() (moqt.PublishDoneCode, string) {
	first, _ := d.bounds()
	for next := first.Start.Group; ; {
		allowed, changed := d.bounds()
		groups, ended, published := d.track.after(next)
		for _, g := range groups {
			if g.id > allowed.End.Group {
				if d.endsWithFilter() {
					return moqt.DoneSubscriptionEnded, ""
				}
				break
			}
			next = g.id + 1
			select {
			case d.behind <- struct{}{}:
			default:
				return moqt.DoneTooFarBehind, errBehind.Error()
			}
			d.spawn(func() {
				d.sendGroup(g)
				<-d.behind
			})
		}
		switch {
		case ended:
			return moqt.DoneTrackEnded, ""
		case next > allowed.End.Group && d.endsWithFilter():
			return moqt.DoneSubscriptionEnded, ""
		}
		select {
		case <-published:
		case <-changed:
		case <-d.moved:
			return moqt.DoneGoingAway, ""
		case <-d.ctx.Done():
			switch context.Cause(d.ctx) {
			case errBehind:
				return moqt.DoneTooFarBehind, errBehind.Error()
			case errUpdate:
				return moqt.DoneUpdateFailed, ""
			}
			return moqt.DoneInternalError, ""
		}
	}
}

// errBehind ends a delivery that lacks objects which the history no longer has.
var errBehind = errors.New("groups are sent slower than they are published")

// errUpdate ends a delivery whose session has refused an update.
var errUpdate = errors.New("an update was refused")

// endsWithFilter reports whether the subscription ends when the track has passed the end of its filter.
func (d *delivery) endsWithFilter() bool { return d.pub.Session().Version().EndsWithFilter() }

// bounds returns the range that the subscriber wants, and a channel that is closed at the next update.
func (d *delivery) bounds() (allowed moqt.Range, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.allowed, d.changed
}

// wants reports whether an object is to be sent now.
func (d *delivery) wants(l moqt.Location) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.forward && d.allowed.Contains(l)
}

// takeUpdates applies the updates of the subscriber (draft §10.9.1).
func (d *delivery) takeUpdates() {
	for {
		select {
		case u := <-d.pub.Updates():
			d.apply(u)
		case <-d.ctx.Done():
			return
		}
	}
}

func (d *delivery) apply(u *session.Update) {
	largest, err := d.accept(u)
	if _, refused := errors.AsType[*moqt.RequestError](err); refused {
		d.cancel(errUpdate)
		return
	}
	if err == nil { // else the subscription is over
		d.fill(d.pub.Fill(u, largest))
	}
	d.track.newGroup(u.Parameters.NewGroupRequest)
}

// accept changes the delivery as an update says, unless the session refuses that. Meanwhile no object is sent or left
// out: the subscriber gets what follows the Largest Object, which is returned, by its new range and Forward State.
func (d *delivery) accept(u *session.Update) (largest *moqt.Location, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	largest = d.track.largest()
	if err := u.OK(moqt.Parameters{LargestObject: largest}); err != nil {
		return nil, err
	}
	if f := u.Parameters.Filter; f != nil {
		d.allowed = f.Range(largest)
	}
	if u.Parameters.Forward != nil {
		if *u.Parameters.Forward && !d.forward && largest != nil {
			// A joining fetch returns objects published meanwhile.
			d.allowed = d.allowed.Intersect(moqt.Range{Start: largest.Next(), End: moqt.MaxLocation})
		}
		d.forward = *u.Parameters.Forward
	}
	close(d.changed)
	d.changed = make(chan struct{})
	return largest, nil
}

// sendGroup sends a group as it is published.
func (d *delivery) sendGroup(g *group) {
	streams := map[uint64]*subgroupStream{}
	defer func() {
		for _, s := range streams {
			s.reset(moqt.ResetCancelled)
		}
	}()
	for next := uint64(0); ; {
		_, updated := d.bounds() // before an object is judged: an update may come while it is sent
		objects, complete, changed := d.track.read(g, next)
		if next > 0 && len(objects) > 0 && objects[0].location.Object > next {
			d.cancel(errBehind)
			return
		}
		for _, o := range objects {
			next = o.location.Object + 1
			d.send(g, streams, o)
		}
		if complete {
			d.markEnd(g, streams, moqt.Location{Group: g.id, Object: next})
			for _, s := range streams {
				s.finish()
			}
			d.endDatagrams(moqt.Location{Group: g.id, Object: next})
			return
		}
		select {
		case <-changed:
		case <-updated:
			if !d.wants(moqt.Location{Group: g.id, Object: next}) {
				for id, s := range streams {
					s.reset(moqt.ResetCancelled)
					delete(streams, id)
				}
			}
		case <-d.ctx.Done():
			return
		}
	}
}

// markEnd marks the end of a group that has disposable frames apart: nobody knows in which subgroup its last object
// will be when the streams begin.
func (d *delivery) markEnd(g *group, streams map[uint64]*subgroupStream, end moqt.Location) {
	if !d.track.layers.disposable() || end.Object == 0 {
		return
	}
	d.send(g, streams, &object{
		location: end, subgroup: d.track.layers.reference(), priority: d.track.layers.delta, born: time.Now(),
		status: moqt.StatusEndOfGroup, first: streams[d.track.layers.reference()] == nil,
	})
}

// send writes an object to the stream of its subgroup, which it opens if necessary.
func (d *delivery) send(g *group, streams map[uint64]*subgroupStream, o *object) {
	if o.datagram {
		d.sendDatagram(o)
		return
	}
	s := streams[o.subgroup]
	if !d.wants(o.location) {
		if s != nil { // the stream would have a gap
			s.reset(moqt.ResetCancelled)
			delete(streams, o.subgroup)
		}
		return
	}
	if s == nil {
		s = d.open(g, o)
		streams[o.subgroup] = s
	}
	s.write(o, d.objectTimeout)
}

// open opens the stream of a subgroup for its object o.
func (d *delivery) open(g *group, o *object) *subgroupStream {
	layers := d.track.layers
	h := moqt.SubgroupHeader{
		GroupID: g.id, DefaultPriority: o.priority == d.track.priority, Priority: o.priority, FirstObject: o.first,
		HasProperties: d.track.frames,
		// More objects of the group may follow on other streams or in datagrams.
		EndOfGroup: o.subgroup == layers.reference() && !layers.disposable() && !d.track.datagrams,
	}
	if o.subgroup != 0 {
		h.SubgroupIDMode, h.SubgroupID = moqt.SubgroupIDPresent, o.subgroup
	}
	stream, err := d.pub.OpenSubgroup(d.ctx, h)
	if err != nil {
		return &subgroupStream{over: true}
	}
	v := d.pub.Session().Version()
	return &subgroupStream{
		stream: stream, encoder: moqt.NewSubgroupEncoder(v.DataLayout(), h),
		single: layers.keyAlone() && o.subgroup == 0, timeout: d.subgroupTimeout, version: v,
		session: d.pub.Session().Context(),
		release: context.AfterFunc(d.ctx, func() { stream.CancelWrite(uint64(moqt.ResetCancelled)) }),
	}
}

// sendDatagram sends an object in a datagram, or drops it if that is too late (draft §8).
func (d *delivery) sendDatagram(o *object) {
	if !d.wants(o.location) || d.tooLate(o) {
		return
	}
	_ = d.pub.SendDatagram(moqt.ObjectDatagram{ // an error is like a loss
		Location: o.location, DefaultPriority: o.priority == d.track.priority, Priority: o.priority, Payload: o.payload,
		Properties: o.wireProperties(d.pub.Session().Version()),
	})
}

// tooLate reports whether a delivery timeout has passed. Both timeouts mean the same for datagrams.
func (d *delivery) tooLate(o *object) bool {
	age := time.Since(o.born)
	return d.objectTimeout > 0 && age > d.objectTimeout || d.subgroupTimeout > 0 && age > d.subgroupTimeout
}

// endDatagrams marks the end of a group that is sent in datagrams: there is no stream whose end would mark it.
func (d *delivery) endDatagrams(end moqt.Location) {
	if d.track.datagrams && d.wants(end) {
		_ = d.pub.SendDatagram(moqt.ObjectDatagram{Location: end, DefaultPriority: true, Status: moqt.StatusEndOfGroup})
	}
}

// subgroupStream is a stream with the objects of a subgroup.
type subgroupStream struct {
	stream  transport.SendStream
	encoder moqt.SubgroupEncoder
	single  bool // it has one object
	version moqt.Version
	timeout time.Duration // for its delivery after the end
	session context.Context
	release func() bool // unlinks the stream from the end of the delivery
	over    bool        // finished, reset or refused
}

// write sends an object. It resets the stream if that takes longer than the timeout (draft §8).
func (s *subgroupStream) write(o *object, timeout time.Duration) {
	if s.over {
		return
	}
	if timeout > 0 {
		deadline := o.born.Add(timeout)
		if !time.Now().Before(deadline) {
			s.reset(moqt.ResetDeliveryTimeout)
			return
		}
		_ = s.stream.SetWriteDeadline(deadline) // fails only on a closed stream, as Write does
	}
	b, err := s.encoder.AppendObject(nil, moqt.ObjectHeader{
		ObjectID: o.location.Object, Status: o.status, Properties: o.wireProperties(s.version),
		PayloadLength: uint64(len(o.payload)),
	})
	if err == nil {
		_, err = s.stream.Write(append(b, o.payload...))
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.reset(moqt.ResetDeliveryTimeout)
	case err != nil:
		s.reset(moqt.ResetCancelled)
	case s.single:
		s.finish()
	}
}

// maxSubgroupTimeout limits how long the stream of a finished subgroup is kept, whatever timeout a subscriber asks for.
const maxSubgroupTimeout = time.Minute

// finish ends the stream. The timeout resets it, which has no effect if everything has been delivered (draft §8).
func (s *subgroupStream) finish() {
	if s.over {
		return
	}
	s.over = true
	s.release()
	_ = s.stream.Close() // fails only after a reset
	if s.timeout > 0 {
		ctx, cancel := context.WithTimeout(s.session, min(s.timeout, maxSubgroupTimeout))
		context.AfterFunc(ctx, func() {
			cancel()
			s.stream.CancelWrite(uint64(moqt.ResetDeliveryTimeout))
		})
	}
}

func (s *subgroupStream) reset(code moqt.StreamResetCode) {
	if !s.over {
		s.over = true
		s.release()
		s.stream.CancelWrite(uint64(code))
	}
}

// maxDatagramPayload is the largest payload with its properties, in bytes, that is sent in a datagram. It fits into a
// packet of 1,200 bytes, which every path carries, after at most 41 bytes of the packet, 11 of the DATAGRAM frame on
// WebTransport and 26 of the object's header.
const maxDatagramPayload = 1100
