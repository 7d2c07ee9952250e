// Package sub plays a MoQ broadcast: it subscribes to its tracks and merges them into one fragmented MP4, or lists
// their objects.
//
// [Run] makes a playback, which lasts for the whole broadcast, and uses one session after the other (package client).
// On the first session a loader reads the catalog and the init segments and chooses the tracks. On each session,
// playing stays subscribed to the catalog, subscribes to every track and fetches earlier objects. An object
// takes this path: a laneReceiver reads it from a stream or a datagram and gives it to the track's sequencer, which
// puts objects in order and knows which are missing; the player takes the next object with the least decode time of all
// tracks, and writes it. A lane is the player's state of one track.
//
// Objects of a track without a container are frames. A Muxer (package loc) makes chunks of them, and the init segment,
// which therefore has to wait for the first of them.
//
// A lane may have several sources, the renditions of one content. If the relay can choose one, playing subscribes to
// all of them at once, and the relay sends each group of one. All sources of a lane fill the same sequencer. The player
// writes a new init segment where another source begins.
//
// Video may have a track in layers, with several subgroups in each group. If they do not arrive, playback subscribes to
// the track with the same objects in one subgroup, which has the same source.
//
// With Config.Raw, a lister writes a line for each object instead.
//
// Locks: player.mu guards the player and its lanes and sequencers; functions that end in Locked, and all methods of
// sequencer, are called with it held. player.mu may be taken while playback.mu is held, not the other way round.
package sub
