// Package names knows in which namespaces the peers of a relay publish, and which tracks they offer, and tells those
// that want to know.
//
//	PUBLISH_NAMESPACE   Announcement ──┐           ┌── Watch    SUBSCRIBE_NAMESPACE
//	PUBLISH             Offer ─────────┼──▶ Space ─┤
//	NAMESPACE           hub.Mirror ────┘           └── Follow   links, PUBLISH_NAMESPACE at upstream relays, cluster
//
// A watcher first gets all that is there, in batches. Each change then brings all that is there now at one place, to
// one batch of watchers after the other, so that nothing depends on the order of changes. A [Peer] says who may be told
// of whom, and how it names places.
package names
