// Package forwarding measures how much a latency monitor costs a router, and how many RTTs it misses.
//
// The kernel forwards TCP between two devices of a network namespace, data one way and ACKs back, on one CPU, while a
// monitor runs on the others, or on the same one ([flood.Router] of rtt/flood says how). [Measure] does so with each
// [Monitor] and without one, in turns, for numbers of flows and for each [Mode] of a monitor: as fast as the CPU can,
// and at a given rate, which shows the cost of the monitor when there is little to do. Packets may also come from TCP
// connections of two hosts, which shows what these take of a CPU. The result is a report of package result.
package forwarding
