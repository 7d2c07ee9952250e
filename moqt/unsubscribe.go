package moqt

import "errors"

// Unsubscribe ends a subscription. It belonged to drafts before 18, which uses STOP_SENDING instead. Subscribers built
// on the Rust crate moq-transport 0.17 still send it, without fields, whenever they drop a subscription; strictness
// would cost them their session and all other subscriptions. It is therefore accepted, and never sent.
type Unsubscribe struct{}

// Type implements Message.
func (*Unsubscribe) Type() MessageType { return MessageUnsubscribe }

func (*Unsubscribe) encode(e *encoder) {
	e.fail(errors.New("send STOP_SENDING on the request stream instead"))
}

func (*Unsubscribe) decode(*decoder) {}
