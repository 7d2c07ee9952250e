// Package fetch answers FETCH (draft §10.12, §11.4.4) from the cache and, where that has nothing, from publishers.
//
//	Fetch      a request. It walks the range through the cache, and writes the objects that it finds
//	response   the stream to the peer that asks, with markers for the objects that it lacks
//	piece      a range that the cache does not have: sent on, and stored, as it comes from a publisher
//	Pull       a FETCH at a publisher, for a piece, or for a Taker of package hub
//	Budget     how long all of that may wait
//	Turns      the order of the responses to one peer
//
// The package knows a track by a [Hub], and its publishers by a [Source] each.
//
// Locks of this package are taken last: a Hub may call [Fetch.Abort] with its own lock held.
package fetch
