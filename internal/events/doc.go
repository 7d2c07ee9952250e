// Package events tells the operator what happens at a relay: sessions, publications and subscribers that come and go.
// A [Sender] sends [relay.Event]s to an HTTP service; a [Log] writes them as log lines. Both take an event without
// waiting, because the relay holds locks while it reports one.
//
// # Delivery
//
// A Sender has a queue, and one goroutine that takes events from it in their order and sends them, up to maxBatch in a
// POST. If that fails it tries again, with longer and longer pauses, until the service has confirmed the events: so the
// service may get an event twice, which it sees by the id. An event is lost only when the queue is full, when the
// service refuses it, after maxAge, or when the relay ends; each loss is counted by its reason.
package events
