// Package chaos tests that honest peers do not notice anything, whatever else happens at a relay.
//
// TestChaos builds a lab with two relays, one with the fast path and one without, and lets honest publishers and
// subscribers use both over both transports: sluice pub and sluice sub, as processes. Meanwhile it does to them what a
// seeded schedule says: attacks of package hostile, forged and replayed packets, links that lose, reorder, duplicate
// and delay, ports and addresses that change, kill -9, programs that are detached from their devices behind the
// relay's back, new certificates and tokens.
//
// Each subscriber's objects are compared as they arrive. At the end all of them must be there, the relays must hold no
// more than after a first short act, and neither their logs nor the kernel's may have what nobody expects.
//
//	make chaos                     10 minutes
//	make chaos CHAOS=30s SEED=7    the same seed makes the same schedule
//
// TestTree does the same for seven relays: an origin, two parents and four edges, which subscribe at each other by
// --upstream. One broadcast comes from the origin, another one from an edge. The nodes without a publisher are killed,
// drained and cut off, and all links between nodes get worse and better. Every viewer gets groups from their beginning
// and without holes. What is missing at the end of one was due when a node was away. What comes twice is counted only.
//
//	make chaos-tree CHAOS=2m SEED=1
//
// The tests need root. Without CHAOS they do not run. CI runs two minutes of each, with one seed.
package chaos
