// Package hook lets tests decide on the order in which senders access shared state.
package hook

// Interleave, if a test sets it, is called before each access to a *claim.Word or *claim.Word32, with the word. So a
// test can try all orders of the senders' steps.
var Interleave func(word any)
