// Package chaos tests that honest peers do not notice anything, whatever else happens at a relay.
//
// TestChaos builds a lab with two relays, one with the fast path and one without, and lets honest publishers and
// subscribers use both over both transports: sluice pub and sluice sub, as processes. Meanwhile it does to them what a
// seeded schedule says: attacks of package hostile, forged and replayed packets, links that lose, reorder, duplicate
// and delay, ports and addresses that change, kill -9, programs that are detached from their devices behind the
// relay's back, new certificates and tokens. Clients of RTSP publish and play, too, and others attack: each kind has a
// host with the links that it survives.
//
// Each subscriber's objects, and each player's packets, are compared as they arrive. At the end all of them must be
// there, the relays must hold no more than after a first short act, and neither their logs nor the kernel's may have
// what nobody expects.
//
//	make chaos                     10 minutes
//	make chaos CHAOS=30s SEED=7    the same seed makes the same schedule
//
// TestTree does the same for seven relays that feed each other, with two broadcasts. The seed says how they know of
// each other:
//
//	seed modulo 3
//	0    --upstream: an origin, two parents and four edges; one broadcast comes from the origin, one from an edge
//	1    --cluster: three regions, and a NATS server in each node
//	2    --cluster-url: three regions, and two NATS servers of their own, at which hostile nodes are, too
//
// In a cluster, publishers and viewers are at random nodes. Nodes are killed, drained, replaced and cut off, and all
// links between nodes get worse and better; nodes are cut off from NATS only, and its servers are killed. When a node
// with a publisher dies or drains, the publisher goes to another node: all nodes have one address in common, which
// leads to the one that a route names. Every viewer gets groups from their beginning, without holes, and each object
// once. What is missing at the end of a group was due when a node was dead or cut off.
//
//	make chaos-tree CHAOS=2m SEED=1
//
// The tests need root. Without CHAOS they do not run. make check runs two minutes of each, with a seed that its commit
// gives.
package chaos
