// Package conform tries a relay of any make: does it keep the rules of draft-ietf-moq-transport that a client can see?
//
// A [Case] is one rule, with its section in draft-18. A rule that a later draft has added names that draft.
// [Cases] has three kinds:
//
//   - messages and data that break a rule, as rows of bytes, each with the code with which the relay has to close the
//     session (wire.go, exchange.go),
//   - the same within what a relay has asked for (publisher.go),
//   - exchanges that have to work, by sessions of package session, which is itself strict with the relay (flow*.go).
//
// A [Suite] runs them, each on sessions of its own, and [TAP] prints the results. A relay that breaks or hangs fails
// one case, and no other.
package conform
