package relay

import (
	"errors"
	"time"

	"sluice/media"
	"sluice/transport"
)

// Outlet sends the data of all subscriptions of one session. A media.Sender does.
type Outlet interface {
	NewSubscription(media.SubscriptionConfig) OutletSubscription
}

// OutletSubscription sends the data of one subscription. Its methods do not block, and may be called with locks held: callbacks of the
// streams' configurations must not be called with locks that a caller may hold.
type OutletSubscription interface {
	OpenStream(media.StreamConfig) (OutletStream, error)
	SendDatagram(media.Datagram) error
	SetPriority(uint8)
	SetTimeouts(object, subgroup time.Duration)
	Close(code uint64)
}

// OutletStream is a downstream subgroup stream.
type OutletStream interface {
	Reset(code uint64)
}

var errNoSender = errors.New("the connection has no media sender; set NewHooks of the listener to Loop.NewSender")

// mediaOutlet returns the media sender that is the connection's hooks.
func mediaOutlet(conn transport.Conn) (Outlet, error) {
	s, ok := conn.Hooks().(*media.Sender)
	if !ok {
		return nil, errNoSender
	}
	return sender{s}, nil
}

type sender struct{ *media.Sender }

func (s sender) NewSubscription(cfg media.SubscriptionConfig) OutletSubscription {
	return senderSubscription{s.Sender.NewSubscription(cfg)}
}

type senderSubscription struct{ *media.Subscription }

func (s senderSubscription) OpenStream(cfg media.StreamConfig) (OutletStream, error) {
	st, err := s.Subscription.OpenStream(cfg)
	if err != nil {
		return nil, err
	}
	return st, nil
}
