package hub

import (
	"errors"
	"time"

	"sluice/media"
	"sluice/transport"
)

// MediaSender makes subscriptions of a connection's media sender. The methods of these do not block and may
// be called with locks held; the callbacks of stream configurations are called without any lock that such a caller may
// hold.
type MediaSender func(media.SubscriptionConfig) MediaSubscription

// MediaSubscription sends the data of one downstream subscription: a *media.Subscription.
type MediaSubscription interface {
	OpenStream(media.StreamConfig) (MediaStream, error)
	SendDatagram(media.Datagram) error
	SetOrder(priority uint8, descending bool)
	SetTimeouts(media.Timeouts)
	SetPatience(time.Duration)
	State() media.SubscriptionState
	Finish(code uint64)
	Close(code uint64)
}

// MediaStream is a downstream subgroup stream: a *media.Stream.
type MediaStream interface {
	Reset(code uint64) (sent int64)
}

// senderSubscription is a *media.Subscription as a mediaSubscription.
type senderSubscription struct{ *media.Subscription }

func (s senderSubscription) OpenStream(cfg media.StreamConfig) (MediaStream, error) {
	st, err := s.Subscription.OpenStream(cfg)
	if err != nil {
		return nil, err // and not a nil *media.Stream in the interface
	}
	return st, nil
}

var errNoSender = errors.New("no media sender has the connection: NewHooks of its listener must return Hooks of one")

// MediaSenderOf returns the media sender that is the connection's hooks.
func MediaSenderOf(conn transport.Conn) (MediaSender, error) {
	s, ok := conn.Hooks().(media.Hooks)
	if !ok {
		return nil, errNoSender
	}
	s.SetQlog(conn.Qlog())
	return func(cfg media.SubscriptionConfig) MediaSubscription {
		return senderSubscription{s.NewSubscription(cfg)}
	}, nil
}
