// Package hook asks an HTTP service who may do what.
//
// A [Hook] is a [relay.Authorizer]. It sends the service a POST for each decision, a JSON object with the request and
// all tokens of the peer (type query), and reads the decision from the answer (type answer). docs/auth.md describes
// both.
//
// # From a request to a decision
//
// The encoded query is the key of everything that follows: requests that look the same to the service get the same
// decision. A decision whose answer has a ttl is stored, in a cache with a fixed number of entries. Equal queries that
// come at the same time become one. A query that is to be sent enters a gate, which limits how many are under way, how
// many wait, and how many of them are for one source, so that a single host cannot use up the service. A query that
// fails for any reason allows nothing: a new request is refused, and an open one, which was allowed before, goes on
// until the service answers (see [relay.Authorizer]).
//
// Hook.counters, the gate and the cache have locks of their own; no lock is held while the service is asked.
package hook
