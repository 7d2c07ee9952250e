package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// Receiver takes the data of a subscription. Without one, all data is discarded.
type Receiver interface {
	// HandleSubgroup owns a subgroup stream until it returns. Each stream has a goroutine of its own.
	HandleSubgroup(*Subgroup)
	// HandleDatagram takes an object, and may keep its memory. Calls do not overlap. They must not block, because all
	// datagrams of the session wait until they return.
	HandleDatagram(*moqt.ObjectDatagram)
}

// FillReceiver is a [Receiver] that also takes the fills that the subscription asks for (moqt.Parameters.Fill). Without
// it, they are discarded.
type FillReceiver interface {
	Receiver
	// HandleFill owns the stream of a fill until it returns. Each stream has a goroutine of its own.
	HandleFill(*Fill)
}

// StateReceiver is a [Receiver] that also learns what changes about the subscription by itself.
type StateReceiver interface {
	Receiver
	// HandleState gets the parameters of PUBLISH_STATE_NOTIFY: what has changed. The next message waits until it
	// returns.
	HandleState(moqt.Parameters)
}

// Fill is the stream of a fill. Read continues after the header.
type Fill struct {
	transport.ReceiveStream
	RequestID    uint64 // of the message that asked for it
	Subscription *Subscription
}

// Subscription is the subscriber's end of a subscription (draft §5.1), whichever end asked for it: [Session.Subscribe]
// returns one, and [Handler] gets one for each PUBLISH.
type Subscription struct {
	*Request
	baseRole
	track    moqt.FullTrackName
	offer    *moqt.Publish // the peer's PUBLISH; nil if the subscription began with SUBSCRIBE
	accept   chan struct{} // closed when receiver is valid
	ending   chan struct{} // closed when no more streams will be opened
	receiver Receiver

	// Guarded by s.mu.
	alias      uint64
	bound      bool // the table maps alias to this subscription
	ok         *moqt.SubscribeOK
	properties moqt.Properties
	parameters moqt.Parameters // ours, with updates
	fills      []uint64        // in the table, oldest first
	filled     bool            // the stream of the fill has come that a SUBSCRIBE_TRACKS asked for
	drain      drain
}

func newSubscription(r *Request, track moqt.FullTrackName) *Subscription {
	sub := &Subscription{Request: r, track: track, accept: make(chan struct{}), ending: make(chan struct{})}
	sub.drain.sub = sub
	return sub
}

// newPublished returns the subscription that a PUBLISH of the peer offers.
func newPublished(r *Request, m *moqt.Publish) *Subscription {
	sub := newSubscription(r, m.Track)
	sub.offer, sub.properties = m, m.Properties
	return sub
}

// Track returns the track.
func (sub *Subscription) Track() moqt.FullTrackName { return sub.track }

// Offer returns the PUBLISH with which the peer offered the track, or nil if the subscription began with SUBSCRIBE.
func (sub *Subscription) Offer() *moqt.Publish { return sub.offer }

// Alias returns the Track Alias, once it is known.
func (sub *Subscription) Alias() (alias uint64, known bool) {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	return sub.alias, sub.bound
}

// Properties returns the Track Properties, once they are known.
func (sub *Subscription) Properties() moqt.Properties {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	return sub.properties
}

// Wait waits for the response to a SUBSCRIBE. The end of ctx does not cancel the subscription.
func (sub *Subscription) Wait(ctx context.Context) (*moqt.SubscribeOK, error) {
	if err := sub.wait(ctx); err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", sub.track, err)
	}
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	return sub.ok, nil
}

// Accept answers a PUBLISH with PUBLISH_OK. If the peer does not take parameters that follow in an update, the
// subscription ends. A subscription of this end to the same track ends with [ErrSuperseded].
func (sub *Subscription) Accept(parameters moqt.Parameters, receiver Receiver) error {
	if parameters.NewGroupRequest != nil && !sub.Properties().DynamicGroups() {
		return errNotDynamic
	}
	if other := sub.superseded(); other != nil {
		other.abort(moqt.ResetCancelled, ErrSuperseded)
	}
	s := sub.s
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, update := sub.splitLocked(parameters)
	if err := sub.answerLocked(&moqt.RequestOK{Parameters: answer}); err != nil {
		return err
	}
	if update != nil {
		if err := sub.sent.sendLocked(&sentUpdate{done: make(chan struct{})}, *update); err != nil {
			s.spawn(func() { sub.abort(moqt.ResetInternalError, err) }) // the peer takes the PUBLISH for accepted
			return err
		}
	}
	key := sub.track.Key()
	if s.table.offers[key] == sub {
		delete(s.table.offers, key)
		s.table.subscriptions[key] = sub
	}
	if sub.drain.cause != nil { // PUBLISH_DONE arrived before this answer
		sub.out.finish()
	}
	sub.parameters, sub.receiver = parameters, receiver
	close(sub.accept)
	s.table.notify()
	s.spawn(func() { s.datagrams.flush(sub) })
	return nil
}

// splitLocked returns the parameters of PUBLISH_OK, and those that follow in an update because the version does not
// have them in PUBLISH_OK; nil if there are none. s.mu is held.
func (sub *Subscription) splitLocked(p moqt.Parameters) (answer moqt.Parameters, update *moqt.Parameters) {
	if sub.s.version.AnswersWithParameters() {
		return p, nil
	}
	answer.Expires, p.Expires = p.Expires, nil
	if p.Forward != nil && *p.Forward == sub.offer.Parameters.ForwardState() {
		p.Forward = nil
	}
	if p.IsEmpty() {
		return answer, nil
	}
	return answer, &p
}

// superseded returns another subscription of this end to the same track, or nil.
func (sub *Subscription) superseded() *Subscription {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	if own := sub.s.table.subscriptions[sub.track.Key()]; own != sub {
		return own
	}
	return nil
}

// errNotDynamic reports that the publisher does not start groups on request.
var errNotDynamic = errors.New("the track has no dynamic groups, which NEW_GROUP_REQUEST needs (draft §10.2.13)")

// Update changes the parameters of the subscription with REQUEST_UPDATE, and waits for the response. If the publisher
// refuses, it ends the subscription.
func (sub *Subscription) Update(ctx context.Context, parameters moqt.Parameters) (*moqt.RequestOK, error) {
	if parameters.NewGroupRequest != nil && !sub.Properties().DynamicGroups() {
		return nil, errNotDynamic
	}
	ok, err := sub.sent.update(ctx, parameters, func(*moqt.RequestOK) { sub.parameters.Merge(&parameters) })
	if err != nil {
		return nil, fmt.Errorf("update %s: %w", sub.track, err)
	}
	return ok, nil
}

// Ending returns a channel that is closed when the publisher has ended the subscription. The context of the
// subscription is done later: when the streams that were on their way have been handled, or after a timeout.
func (sub *Subscription) Ending() <-chan struct{} { return sub.ending }

// admitLocked implements role.
func (sub *Subscription) admitLocked() error {
	if sub.offer != nil {
		return sub.admitOfferLocked()
	}
	var err error
	if !sub.s.version.HasSharedTracks() {
		err = sub.s.table.mayBegin(sub.track, false)
	}
	if err == nil {
		sub.s.table.subscriptions[sub.track.Key()] = sub
	}
	return err
}

// admitOfferLocked adds a PUBLISH to the table. If there is a Pending subscription of this end to the same track, the
// application decides which one to keep (draft §5.1). s.mu is held.
func (sub *Subscription) admitOfferLocked() error {
	table := &sub.s.table
	if typ, found := sub.properties.Mandatory(); found {
		table.aliases.retire(sub.offer.TrackAlias)
		return refuse(moqt.RequestUnsupportedExtension, "mandatory track property %#x is not supported", typ)
	}
	key := sub.track.Key()
	own := table.subscriptions[key]
	if table.offers[key] != nil || own != nil && (own.offer != nil || own.answered) {
		return refuse(moqt.RequestDuplicateSubscription, "%v", ErrDuplicate)
	}
	if err := sub.bindLocked(sub.offer.TrackAlias); err != nil {
		return err
	}
	if own != nil {
		table.offers[key] = sub
	} else {
		table.subscriptions[key] = sub
	}
	return nil
}

// bindLocked maps the Track Alias to the subscription. s.mu is held.
func (sub *Subscription) bindLocked(alias uint64) error {
	if err := sub.s.table.aliases.bind(alias, sub); err != nil {
		return err
	}
	sub.alias, sub.bound = alias, true
	sub.s.table.notify()
	return nil
}

// serve implements role.
func (sub *Subscription) serve(h Handler) { h.HandlePublish(sub) }

// accepted implements role: the peer has sent SUBSCRIBE_OK.
func (sub *Subscription) accepted(m moqt.Message) error {
	ok := m.(*moqt.SubscribeOK)
	if typ, found := ok.Properties.Mandatory(); found {
		sub.s.mu.Lock()
		sub.s.table.aliases.retire(ok.TrackAlias)
		sub.s.table.notify()
		sub.s.mu.Unlock()
		sub.abort(moqt.ResetCancelled,
			refuse(moqt.RequestUnsupportedExtension, "mandatory track property %#x is not supported", typ))
		return nil
	}
	sub.s.mu.Lock()
	if sub.over {
		sub.s.table.aliases.retire(ok.TrackAlias)
		sub.s.mu.Unlock()
		return nil
	}
	sub.ok, sub.properties = ok, ok.Properties
	err := sub.bindLocked(ok.TrackAlias)
	sub.s.mu.Unlock()
	sub.s.spawn(func() { sub.s.datagrams.flush(sub) })
	return err
}

// message implements role.
func (sub *Subscription) message(m moqt.Message) error {
	if n, ok := m.(*moqt.StateNotify); ok { // needs no action (draft-20 §10.10)
		sub.s.mu.Lock()
		receiver, ok := sub.receiver.(StateReceiver) // none before a PUBLISH is accepted
		sub.s.mu.Unlock()
		if ok {
			receiver.HandleState(n.Parameters)
		}
		return nil
	}
	done, ok := m.(*moqt.PublishDone)
	if !ok {
		return sub.baseRole.message(m)
	}
	sub.s.mu.Lock()
	sub.peerDone = true
	sub.s.mu.Unlock()
	sub.drain.start(&DoneError{*done}, done.StreamCount)
	return nil
}

// closed implements role. A publisher that closes the stream without PUBLISH_DONE sends no more objects either.
func (sub *Subscription) closed() (error, bool) {
	sub.drain.start(ErrNoResponse, moqt.UnknownStreamCount)
	return nil, false
}

// deliveryTimeoutLocked returns the longer of the delivery timeouts that apply (draft §8). s.mu is held.
func (sub *Subscription) deliveryTimeoutLocked() time.Duration {
	return max(
		moqt.DeliveryTimeout(sub.parameters.SubgroupDeliveryTimeout, sub.properties.SubgroupDeliveryTimeout()),
		moqt.DeliveryTimeout(sub.parameters.ObjectDeliveryTimeout, sub.properties.ObjectDeliveryTimeout()),
	)
}

// endedLocked implements role.
func (sub *Subscription) endedLocked() {
	sub.leaveLocked()
	if sub.bound {
		sub.s.table.aliases.release(sub.alias, sub)
	}
	if sub.offer != nil && !sub.bound {
		sub.s.table.aliases.retire(sub.offer.TrackAlias)
	}
	for _, id := range sub.fills {
		delete(sub.s.table.fills, id)
	}
	sub.drain.stopLocked()
	sub.s.table.notify()
}

// leaveLocked allows a new subscription to the track. s.mu is held.
func (sub *Subscription) leaveLocked() {
	key := sub.track.Key()
	for _, m := range []map[string]*Subscription{sub.s.table.subscriptions, sub.s.table.offers} {
		if m[key] == sub {
			delete(m, key)
		}
	}
}

// deliver hands an object from a datagram to the receiver.
func (sub *Subscription) deliver(o *moqt.ObjectDatagram) {
	if sub.receiver != nil {
		sub.receiver.HandleDatagram(o)
	}
}
