package media

import (
	"errors"
	"time"

	"sluice/track"
)

// Level orders what is sent: Subscriber Priority << 8 | Publisher Priority. Lower levels go first (draft §7).
type Level uint16

// SubscriptionConfig is what the streams and datagrams of a [Subscription] have in common.
type SubscriptionConfig struct {
	// Priority is the Subscriber Priority.
	Priority uint8
	// Descending is the Group Order: higher group ids are sent first.
	Descending bool
	// ObjectTimeout and SubgroupTimeout are the delivery timeouts in force (draft §8). 0: none.
	ObjectTimeout, SubgroupTimeout time.Duration
	// ErrorCode maps an application's stream reset code to the one on the wire. Default: the same.
	ErrorCode func(uint64) uint64
	// Owner is not used by this package: it leads from events to what the subscription belongs to.
	Owner any
}

// Subscription sends the subgroups and datagrams of one subscription. Its methods may be called on any goroutine.
type Subscription struct{}

// NewSubscription adds a subscription. Close releases it.
func (s *Sender) NewSubscription(cfg SubscriptionConfig) *Subscription { return &Subscription{} }

// StreamConfig describes a downstream stream: Prefix and then the bytes of Log from Start on.
type StreamConfig struct {
	// Prefix is what the stream starts with: the WebTransport stream header, SUBGROUP_HEADER, and for late joiners the
	// re-encoded first Object ID Delta. It is kept, and must not be changed. At most [MaxPrefix] bytes.
	Prefix []byte
	Log    *track.Log
	Start  int64
	// Group, Subgroup and Priority (the Publisher Priority) order the streams of a subscription.
	Group, Subgroup uint64
	Priority        uint8
	// OnDone is called once, without locks held, when the stream needs the log no longer. It must not block.
	OnDone func(Result)
}

// MaxPrefix is the largest StreamConfig.Prefix in bytes: it has to fit into the first packet.
const MaxPrefix = 512

// OpenStream adds a stream. It is opened on the wire when it is its turn and has data or an end to send. After Close, of the
// subscription or the connection, it fails with [ErrClosed].
func (sub *Subscription) OpenStream(cfg StreamConfig) (*Stream, error) {
	return nil, errors.ErrUnsupported
}

// Datagram is an object with forwarding preference Datagram.
type Datagram struct {
	// Header and Payload together are the DATAGRAM frame's content. They are kept, and must not be changed.
	Header, Payload []byte
	// Group, Object and Priority (the Publisher Priority) order the datagrams of a subscription.
	Group, Object uint64
	Priority      uint8
	// Received is when the first byte was received; delivery timeouts run from it.
	Received time.Time
}

// SendDatagram queues a datagram. Those too large for the path, too late, or too many are dropped and counted.
func (sub *Subscription) SendDatagram(d Datagram) error { return errors.ErrUnsupported }

// SetPriority changes the Subscriber Priority, also of what is queued.
func (sub *Subscription) SetPriority(p uint8) {}

// SetTimeouts changes the delivery timeouts, also of what is queued.
func (sub *Subscription) SetTimeouts(object, subgroup time.Duration) {}

// Close resets the streams that are not complete with an application's code, and drops what is queued.
func (sub *Subscription) Close(code uint64) {}
