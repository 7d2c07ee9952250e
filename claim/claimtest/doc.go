// Package claimtest tries the claim protocol in every order of its steps.
//
// A [Scenario] is shared state with actors that work on it. [Explore] runs the actors as coroutines that stop before
// each access to a shared word, and goes through all orders of these accesses. [Claims] runs the protocol on memory
// that a real forwarder shares, and [BeforeEach] lets that forwarder act between any two accesses. [Model] checks a
// model of the protocol.
package claimtest
