// Package chaos tests that honest peers do not notice anything, whatever else happens at a relay.
//
// TestChaos builds a lab with three relays: one with the fast path, one without, and one with it that other processes
// replace (--replace) again and again. Honest publishers and subscribers use all of them over both transports: sluice
// pub and sluice sub, as processes. Meanwhile it does to them what a seeded schedule says: attacks of package hostile,
// forged and replayed packets, links that lose, reorder, duplicate and delay, ports and addresses that change, kill -9,
// programs that are detached from their devices behind the relay's back, new certificates and tokens. Clients of RTSP
// publish and play, too, and others attack, with TLS and SRTP and without: each kind has a host with the links that it
// survives.
//
// Each subscriber's objects, and each player's packets, are compared as they arrive. At the end all of them must be
// there once, but for those that the relays have left out by their policy, or may send twice, as their logs say. The
// relays must hold no more than after a first short act, and neither their logs nor the kernel's may have what nobody
// expects.
//
//	make chaos                     10 minutes
//	make chaos CHAOS=30s SEED=7    the same seed makes the same schedule
//	make chaos CHAOS=1h PLOTS=DIR  plots there what the relays hold meanwhile
//
// The test needs root. Without CHAOS it does not run. make check runs two minutes of it, with a seed that its commit
// gives. Relays that feed each other, and clusters, are simulated (docs/simulation.md).
package chaos
