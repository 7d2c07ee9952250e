package moqt

// Parameters are the Message Parameters of a control message (draft §10.2). A nil pointer is a parameter that is
// absent; what that means depends on the message. Times are in milliseconds. Which parameters a message may have is
// checked when it is encoded and decoded.
type Parameters struct {
	AuthorizationTokens     []Token     // §10.2.2; the only one that may be repeated
	SubgroupDeliveryTimeout *uint64     // §10.2.3; 0 is no timeout
	ObjectDeliveryTimeout   *uint64     // §10.2.4; 0 is no timeout
	FillTimeout             *uint64     // §10.2.5; 0 is "only what is there already"
	RendezvousTimeout       *uint64     // §10.2.6; 0 and absent are "do not wait"
	SubscriberPriority      *uint8      // §10.2.7; 0 is the most urgent
	GroupOrder              *GroupOrder // §10.2.8
	Filter                  *Filter     // §10.2.9
	Expires                 *uint64     // §10.2.10; 0 is "never, or at an unknown time"
	LargestObject           *Location   // §10.2.11; absent if there are no objects
	Forward                 *bool       // §10.2.12
	NewGroupRequest         *uint64     // §10.2.13; the largest known Group ID plus 1, 0 if none is known
	NamespacePrefix         *Namespace  // §10.2.14
}

// ForwardState returns the Forward parameter, or true, its default in every message but REQUEST_UPDATE (draft §10.2.12).
func (p *Parameters) ForwardState() bool { return p.Forward == nil || *p.Forward }

// Priority returns the Subscriber Priority, or 128, its default in every message but REQUEST_UPDATE (draft §10.2.7).
func (p *Parameters) Priority() uint8 {
	if p.SubscriberPriority == nil {
		return DefaultSubscriberPriority
	}
	return *p.SubscriberPriority
}

// Order returns the Group Order parameter, or fallback if it is absent (draft §10.2.8): the publisher's preference for
// subscriptions, Ascending for FETCH.
func (p *Parameters) Order(fallback GroupOrder) GroupOrder {
	if p.GroupOrder == nil {
		return fallback
	}
	return *p.GroupOrder
}

// Merge overwrites the parameters of p with those that update has (REQUEST_UPDATE, draft §10.9).
func (p *Parameters) Merge(update *Parameters) {
	for _, f := range newest().parameters {
		f.merge(p, update)
	}
}
