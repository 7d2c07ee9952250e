// Package sim is a network in memory, for real QUIC connections in the virtual time of testing/synctest.
//
// A [Network] has hosts with one address each. [Network.Listen] opens a UDP socket of a host, and [Network.Share] one
// that shares its port with others. What happens to a packet between two hosts is a [Link], which may lose, delay,
// reorder, duplicate, corrupt and queue it. All of that follows from the network's seed and the order in which packets
// are sent.
//
// Package trial has whole relays live through mishaps on such a network. docs/simulation.md lists the simulated parts.
package sim
