// Package lab builds hosts in network namespaces of one machine, joined by links that limit, lose, delay, reorder and
// duplicate packets on request, and records when packets pass their devices.
//
// A [Lab] has a publisher, relays and subscribers, each a [Host] in a network namespace. One more namespace, in the
// middle, holds bridges and everything that affects packets. A [Link] joins a [Device] of a host to a port of a
// bridge, and has [Conditions] in each [Direction].
//
// A packet from a publisher to the relay goes through
//
//	eth0 of pub     the token bucket for the rate (netns), the capture FromHost
//	port pub        ingress: the BPF program from_host decides, by seed, lane and packet number alone, whether the
//	                packet is lost, duplicated or reordered; it also translates ports after a Rebind
//	wire            only if the link has a delay, or the packet is reordered (package wire)
//	bridge uplink
//	port relay-up   egress: the program to_host, with the conditions towards the relay, then the capture ToHost
//	up of relay
//
// Packages below: netns configures one namespace, wire delays frames, bpf has the programs. Packages above: measure
// turns recorded packets into delays, process starts programs, control lets other processes use a lab, labtest builds
// labs for tests.
//
// Locks: Lab.changing is held for a whole [Lab.Apply]; Lab.mu guards conditions, addresses, the state of links and
// the wire, and is taken after it. No lock is held while a test or a program inside a host runs.
package lab
