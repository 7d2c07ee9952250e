// Package events tells the operator about sessions, publications and subscribers of a relay that come and go. A
// [Sender] sends [relay.Event]s to an HTTP service; a [Log] writes them as log lines. Both take an event without
// waiting, because the relay holds locks while it reports one.
//
// An [outbox.Box] sends the events. Their ids end with a number that counts lost ones, too.
package events
