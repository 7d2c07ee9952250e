package moqt

import (
	"fmt"
	"math"
	"time"
)

// Parameters are the Message Parameters of a control message (draft §10.2). A nil pointer is a parameter that is
// absent, which means different things in different messages. Times are in milliseconds. Encoding and decoding check
// that the message may have the parameters.
type Parameters struct {
	AuthorizationTokens     []Token     // §10.2.2; may be repeated
	SubgroupDeliveryTimeout *uint64     // §10.2.3; 0 is no timeout
	ObjectDeliveryTimeout   *uint64     // §10.2.4; 0 is no timeout
	FillTimeout             *uint64     // §10.2.5; 0: only objects that are already there
	RendezvousTimeout       *uint64     // §10.2.6; 0 and absent are "do not wait"
	SubscriberPriority      *uint8      // §10.2.7; 0 is the most urgent
	GroupOrder              *GroupOrder // §10.2.8
	Filter                  *Filter     // §10.2.9
	Expires                 *uint64     // §10.2.10; 0 is "never, or at an unknown time"
	LargestObject           *Location   // §10.2.11; absent if there are no objects
	Forward                 *bool       // §10.2.12
	NewGroupRequest         *uint64     // §10.2.13; the largest known Group ID plus 1, 0 if none is known
	NamespacePrefix         *Namespace  // §10.2.14

	// Of later versions. Their sections refer to draft-20.
	RangeFilters      RangeFilters // §5.1.4; in ascending order of type; may be repeated
	Fill              *Parameters  // §10.2.15; asks for a fill, with the differences from the subscription
	IncludeProperties *bool        // §10.2.21; absent means true

	// Of draft-lcurley-moq-cluster.
	HopPath   HopPath // relays that the message has come through, its sender last
	RouteCost *uint64 // of a subscription in the namespace; absent means 0

	Rendition *Rendition // this and the next: of Sluice, see rendition.go
	Playback  *Playback
}

// ForwardState returns the Forward parameter, or true, its default in all messages but REQUEST_UPDATE (draft §10.2.12).
func (p *Parameters) ForwardState() bool { return p.Forward == nil || *p.Forward }

// Priority returns the Subscriber Priority, or 128, its default in all messages but REQUEST_UPDATE (draft §10.2.7).
func (p *Parameters) Priority() uint8 {
	if p.SubscriberPriority == nil {
		return DefaultSubscriberPriority
	}
	return *p.SubscriberPriority
}

// Order returns the Group Order parameter, or fallback if it is absent (draft §10.2.8). The fallback is the publisher's
// preference for a subscription, and Ascending for a FETCH.
func (p *Parameters) Order(fallback GroupOrder) GroupOrder {
	if p.GroupOrder == nil {
		return fallback
	}
	return *p.GroupOrder
}

// Cost returns the Route Cost, or 0, its default (draft-lcurley-moq-cluster).
func (p *Parameters) Cost() uint64 {
	if p.RouteCost == nil {
		return 0
	}
	return *p.RouteCost
}

// WantsProperties returns the Include Properties parameter, or true, its default (draft-20 §10.2.21).
func (p *Parameters) WantsProperties() bool {
	return p.IncludeProperties == nil || *p.IncludeProperties
}

// Filling returns the parameters of a fill for a subscription with parameters p: Fill's own, and the subscription's
// where Fill has none (draft-20 §10.2.15).
func (p *Parameters) Filling() Parameters {
	f := Parameters{
		SubscriberPriority: p.SubscriberPriority, Filter: p.Filter, GroupOrder: p.GroupOrder,
		RangeFilters: p.RangeFilters, HopPath: p.HopPath,
	}
	f.Merge(p.Fill)
	return f
}

// Merge replaces the parameters of p that update has (REQUEST_UPDATE, draft §10.9).
func (p *Parameters) Merge(update *Parameters) {
	for _, f := range everyParameter {
		f.merge(p, update)
	}
}

// IsEmpty reports whether there is no parameter.
func (p *Parameters) IsEmpty() bool {
	for _, f := range everyParameter {
		if f.count(p) > 0 {
			return false
		}
	}
	return true
}

// ForPublish returns the parameters that a PUBLISH may have in version v.
func (p *Parameters) ForPublish(v Version) (allowed Parameters) {
	for _, f := range v.wire().parameters {
		if f.scope&inPublish != 0 {
			f.merge(&allowed, p)
		}
	}
	return allowed
}

// fields are Number of Parameters and the Parameters. All must be in scope.
func (p *Parameters) fields(c *coder, allowed scope) {
	if c.writes {
		p.write(c, allowed)
	} else {
		p.read(c, allowed)
	}
}

func (p *Parameters) read(c *coder, allowed scope) {
	var n, delta uint64
	var last ParameterType
	for c.varint(&n); n > 0 && c.err == nil; n-- {
		c.varint(&delta)
		typ := last + ParameterType(delta)
		if typ < last {
			c.fail(violation("parameter type exceeds 2^64-1"))
			return
		}
		last = typ
		f, ok := c.wire.parameter(typ)
		switch {
		case ok && c.oldParameters && typ == ParameterGroupOrder && allowed == inSubscribeOK:
			new(GroupOrder).fields(c)
		case ok && f.scope&allowed == 0 && c.wire.references:
			f.value(c, new(Parameters), 0) // draft-16 §9.2.2: to be ignored
		case !ok || f.scope&allowed == 0:
			c.fail(violation("parameter %#x is unknown in this message", uint64(typ)))
		case !f.repeatable && f.count(p) > 0:
			c.fail(violation("parameter %#x appears twice", uint64(typ)))
		default:
			f.value(c, p, 0)
		}
	}
}

func (p *Parameters) write(c *coder, allowed scope) {
	n := 0
	for _, f := range c.wire.parameters {
		n += f.count(p)
	}
	c.fail(checkTokens(p.AuthorizationTokens))
	c.varint(new(uint64(n)))
	last := ParameterType(0)
	for _, f := range c.wire.parameters {
		for i := range f.count(p) {
			if f.scope&allowed == 0 {
				c.fail(fmt.Errorf("parameter %#x is not allowed in this message", uint64(f.typ)))
			}
			c.varint(new(uint64(f.typ - last)))
			f.value(c, p, i)
			last = f.typ
		}
	}
}

// scope is a set of messages in which a parameter may appear (draft §10.2.1). A message whose parameters depend on the
// message that it answers or changes has one member for each case.
type scope uint32

const (
	inSubscribe scope = 1 << iota
	inSubscribeOK
	inPublish
	inPublishOK
	inFetch
	inFetchOK
	inTrackStatus
	inTrackStatusOK
	inPublishNamespace
	inNamespace
	inSubscribeNamespace
	inSubscribeTracks
	inNamespaceOK        // REQUEST_OK to PUBLISH_NAMESPACE, SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS
	inUpdateSubscription // REQUEST_UPDATE of a SUBSCRIBE or PUBLISH
	inUpdateFetch        // REQUEST_UPDATE of a FETCH
	inUpdateNamespace    // REQUEST_UPDATE of a PUBLISH_NAMESPACE
	inUpdatePrefix       // REQUEST_UPDATE of a SUBSCRIBE_NAMESPACE
	inUpdateTracks       // REQUEST_UPDATE of a SUBSCRIBE_TRACKS
	inUpdateOK
	inStateNotify
	inFill // within FILL_PARAMETERS

	inUpdate    = inUpdateSubscription | inUpdateFetch | inUpdateNamespace | inUpdatePrefix | inUpdateTracks
	inRequestOK = inPublishOK | inTrackStatusOK | inNamespaceOK | inUpdateOK
)

// GroupOrder is the order in which groups are sent (draft §7.1, §10.2.8).
type GroupOrder uint8

// Group orders.
const (
	Ascending  GroupOrder = 0x1 // lower Group IDs first
	Descending GroupOrder = 0x2 // higher Group IDs first
)

// String names the order.
func (o GroupOrder) String() string {
	switch o {
	case Ascending:
		return "ascending"
	case Descending:
		return "descending"
	}
	return fmt.Sprintf("group order %#x", uint8(o))
}

func (o GroupOrder) validate() error {
	if o != Ascending && o != Descending {
		return fmt.Errorf("group order is %d, neither 1 nor 2", uint8(o))
	}
	return nil
}

func (o *GroupOrder) fields(c *coder) {
	c.byte((*byte)(o))
	c.check(o.validate())
}

// Milliseconds converts a time of the wire format, 0 to 2^64-1 milliseconds, to a Duration. Longer times become the
// longest Duration, about 292 years.
func Milliseconds(ms uint64) time.Duration {
	if ms > math.MaxInt64/uint64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// DeliveryTimeout returns the shorter of two timeouts, in milliseconds: a subscriber's parameter, which may be nil, and
// a publisher's property. 0 is no timeout (draft §8).
func DeliveryTimeout(subscriber *uint64, publisher uint64) time.Duration {
	if subscriber == nil || *subscriber == 0 || publisher != 0 && publisher < *subscriber {
		return Milliseconds(publisher)
	}
	return Milliseconds(*subscriber)
}
