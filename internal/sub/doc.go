// Package sub plays a MoQ broadcast: it subscribes to its tracks and merges them into one fragmented MP4, or lists
// their objects.
//
// [Run] makes a playback, which lasts for the whole broadcast, and uses a session after the other (package client). On
// the first session a loader reads the catalog and the init segments and chooses the tracks. On each session, playing
// subscribes to every track and fetches what was published before. One object's way: a laneReceiver reads it from a
// stream or a datagram and gives it to the track's sequencer, which puts objects in order and knows which are missing;
// the player takes the next object with the least decode time of all tracks (its lane has what belongs to one track),
// and writes it.
//
// With Config.Raw, a lister writes a line for each object instead.
//
// Locks: player.mu guards the player and its lanes and sequencers; functions that end in Locked, and all of a
// sequencer's, are called with it held. playback.mu is held while playback begins; player.mu may be taken under it, not
// the other way round.
package sub
