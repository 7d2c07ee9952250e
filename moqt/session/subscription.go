package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/moqt"
)

// Receiver takes the data of a subscription. Without one, all data is discarded.
type Receiver interface {
	// HandleSubgroup owns a subgroup stream until it returns. Each has a goroutine of its own.
	HandleSubgroup(*Subgroup)
	// HandleDatagram takes an object, whose memory it may keep. Calls do not overlap, and must not block, because all
	// datagrams of the session wait.
	HandleDatagram(*moqt.ObjectDatagram)
}

// Subscription is the subscriber's end of a subscription (draft §5.1), whichever end asked for it:
// [Session.Subscribe] returns one, and [Handler] gets one for each PUBLISH.
type Subscription struct {
	*Request
	baseRole
	track    moqt.FullTrackName
	offer    *moqt.Publish // what the peer offered; nil if the subscription began with SUBSCRIBE
	accept   chan struct{} // closed when receiver is valid
	ending   chan struct{} // closed when no more streams will be opened
	receiver Receiver

	// Guarded by s.mu.
	alias      uint64
	bound      bool // alias leads here
	ok         *moqt.SubscribeOK
	properties moqt.Properties
	parameters moqt.Parameters // ours, with updates
	drain      drain
}

// Subscribe asks for the objects of a track that are published from now on (draft §10.7). The Request ID of the
// message is filled in. Joining fetches may be sent at once. It waits only for a stream, at the peer's limit.
func (s *Session) Subscribe(ctx context.Context, m moqt.Subscribe, receiver Receiver) (*Subscription, error) {
	sub := newSubscription(m.Track)
	sub.receiver, sub.parameters = receiver, m.Parameters
	close(sub.accept)
	err := s.request(ctx, s.waitForStream, &m, func(r *Request) role {
		sub.Request = r
		return sub
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", m.Track, err)
	}
	return sub, nil
}

func newSubscription(track moqt.FullTrackName) *Subscription {
	return &Subscription{track: track, accept: make(chan struct{}), ending: make(chan struct{})}
}

// newPublished is the subscription that a PUBLISH of the peer offers.
func newPublished(r *Request, m *moqt.Publish) *Subscription {
	sub := newSubscription(m.Track)
	sub.Request, sub.offer = r, m
	sub.properties = m.Properties
	return sub
}

// Track is the track.
func (sub *Subscription) Track() moqt.FullTrackName { return sub.track }

// Offer is the PUBLISH with which the peer offered the track, or nil if the subscription began with SUBSCRIBE.
func (sub *Subscription) Offer() *moqt.Publish { return sub.offer }

// Alias is the Track Alias, once it is known.
func (sub *Subscription) Alias() (alias uint64, known bool) {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	return sub.alias, sub.bound
}

// Properties are the Track Properties, once they are known.
func (sub *Subscription) Properties() moqt.Properties {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	return sub.properties
}

// Wait waits for the response to a SUBSCRIBE. Giving up does not cancel the subscription.
func (sub *Subscription) Wait(ctx context.Context) (*moqt.SubscribeOK, error) {
	if err := sub.wait(ctx); err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", sub.track, err)
	}
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	return sub.ok, nil
}

// Accept answers a PUBLISH with PUBLISH_OK. A subscription of ours to the same track ends with [ErrSuperseded].
func (sub *Subscription) Accept(parameters moqt.Parameters, receiver Receiver) error {
	if parameters.NewGroupRequest != nil && !sub.Properties().DynamicGroups() {
		return errNotDynamic
	}
	if own := sub.s.subscribed(sub); own != nil {
		own.abort(moqt.ResetCancelled, ErrSuperseded)
	}
	s := sub.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := sub.answerLocked(&moqt.RequestOK{Parameters: parameters}); err != nil {
		return err
	}
	key := sub.track.Key()
	if s.offers[key] == sub {
		delete(s.offers, key)
		s.subscriptions[key] = sub
	}
	if sub.drain.cause != nil { // PUBLISH_DONE was faster
		sub.out.finish()
	}
	sub.parameters, sub.receiver = parameters, receiver
	close(sub.accept)
	s.notify()
	s.spawn(func() { s.flushDatagrams(sub) })
	return nil
}

// subscribed returns the subscription of ours to the track that the peer offers with sub, if there is one.
func (s *Session) subscribed(sub *Subscription) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.subscriptions[sub.track.Key()]; own != sub {
		return own
	}
	return nil
}

// errNotDynamic says that the publisher does not start groups on request.
var errNotDynamic = errors.New("the track has no dynamic groups, which NEW_GROUP_REQUEST needs (draft §10.2.13)")

// Update changes the parameters of the subscription with REQUEST_UPDATE, and waits for the response. If the publisher
// refuses, it ends the subscription.
func (sub *Subscription) Update(ctx context.Context, parameters moqt.Parameters) (*moqt.RequestOK, error) {
	if parameters.NewGroupRequest != nil && !sub.Properties().DynamicGroups() {
		return nil, errNotDynamic
	}
	ok, err := sub.update(ctx, parameters, func(*moqt.RequestOK) { sub.parameters.Merge(&parameters) })
	if err != nil {
		return nil, fmt.Errorf("update %s: %w", sub.track, err)
	}
	return ok, nil
}

// Ending is closed when the publisher has said that it is done. The context of the subscription is done when the
// streams that were still on their way have been handled, or a timeout has passed.
func (sub *Subscription) Ending() <-chan struct{} { return sub.ending }

// admit implements role.
func (sub *Subscription) admit() error {
	if sub.offer != nil {
		return sub.admitOffer()
	}
	err := sub.s.mayBegin(sub.track, false)
	if err == nil {
		sub.s.subscriptions[sub.track.Key()] = sub
	}
	return err
}

// admitOffer enters a PUBLISH. One for a track with a Pending subscription of ours is left to the application
// (draft §5.1).
func (sub *Subscription) admitOffer() error {
	if typ, found := sub.properties.Mandatory(nil); found {
		sub.s.aliases.retire(sub.offer.TrackAlias)
		return refuse(moqt.RequestUnsupportedExtension, "mandatory track property %#x is not supported", typ)
	}
	key := sub.track.Key()
	own := sub.s.subscriptions[key]
	if sub.s.offers[key] != nil || own != nil && (own.offer != nil || own.answered) {
		return refuse(moqt.RequestDuplicateSubscription, "%v", ErrDuplicate)
	}
	if err := sub.bind(sub.offer.TrackAlias); err != nil {
		return err
	}
	if own != nil {
		sub.s.offers[key] = sub
	} else {
		sub.s.subscriptions[key] = sub
	}
	return nil
}

// bind makes the Track Alias lead to the subscription.
func (sub *Subscription) bind(alias uint64) error {
	if err := sub.s.aliases.bind(alias, sub); err != nil {
		return err
	}
	sub.alias, sub.bound = alias, true
	sub.s.notify()
	return nil
}

// serve implements role.
func (sub *Subscription) serve(h Handler) { h.HandlePublish(sub) }

// accepted implements role: the peer has sent SUBSCRIBE_OK.
func (sub *Subscription) accepted(m moqt.Message) error {
	ok := m.(*moqt.SubscribeOK)
	if typ, found := ok.Properties.Mandatory(nil); found {
		sub.s.retireAlias(ok.TrackAlias)
		sub.abort(moqt.ResetCancelled,
			refuse(moqt.RequestUnsupportedExtension, "mandatory track property %#x is not supported", typ))
		return nil
	}
	sub.s.mu.Lock()
	if sub.over {
		sub.s.aliases.retire(ok.TrackAlias)
		sub.s.mu.Unlock()
		return nil
	}
	sub.ok, sub.properties = ok, ok.Properties
	err := sub.bind(ok.TrackAlias)
	sub.s.mu.Unlock()
	sub.s.spawn(func() { sub.s.flushDatagrams(sub) })
	return err
}

// message implements role.
func (sub *Subscription) message(m moqt.Message) error {
	done, ok := m.(*moqt.PublishDone)
	if !ok {
		return sub.baseRole.message(m)
	}
	sub.s.mu.Lock()
	sub.peerDone = true
	sub.s.mu.Unlock()
	sub.startDraining(&DoneError{*done}, done.StreamCount)
	return nil
}

// closed implements role. A publisher that closes the stream without PUBLISH_DONE has no more to send either.
func (sub *Subscription) closed() (error, bool) {
	sub.startDraining(ErrNoResponse, moqt.UnknownStreamCount)
	return nil, false
}

// deliveryTimeout is the longer one of the delivery timeouts that apply (draft §8).
func (sub *Subscription) deliveryTimeout() time.Duration {
	shorter := func(subscriber *uint64, publisher uint64) uint64 {
		if subscriber == nil || *subscriber == 0 || publisher != 0 && publisher < *subscriber {
			return publisher
		}
		return *subscriber
	}
	return moqt.Milliseconds(max(
		shorter(sub.parameters.SubgroupDeliveryTimeout, sub.properties.SubgroupDeliveryTimeout()),
		shorter(sub.parameters.ObjectDeliveryTimeout, sub.properties.ObjectDeliveryTimeout()),
	))
}

// ended implements role.
func (sub *Subscription) ended() {
	sub.leave()
	if sub.bound {
		sub.s.aliases.release(sub.alias, sub)
	}
	if sub.offer != nil && !sub.bound {
		sub.s.aliases.retire(sub.offer.TrackAlias)
	}
	sub.drain.stop()
	sub.s.notify()
}

// leave makes room for a new subscription to the track.
func (sub *Subscription) leave() {
	key := sub.track.Key()
	for _, m := range []map[string]*Subscription{sub.s.subscriptions, sub.s.offers} {
		if m[key] == sub {
			delete(m, key)
		}
	}
}
