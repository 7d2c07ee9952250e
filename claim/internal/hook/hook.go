// Package hook lets tests decide on the order in which senders access shared state.
package hook

// Interleave is what a test sets to decide on the order of accesses: it is called with each *claim.Word and
// *claim.Word32 before that is accessed, and whether the access may change it. It is nil otherwise.
var Interleave func(word any, writes bool)
