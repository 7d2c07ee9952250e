// Package pub publishes CMAF media as a MoQ broadcast: it reads fragmented MP4, offers the broadcast to a relay, and
// sends each chunk as an object when it is due.
//
// [Run] makes a publisher, which lasts as long as the input, and uses one session after the other (package client). A
// chunk takes this path: a source reads it from the input, or from several inputs as if they were one; a grouper
// decides its group, a pacer waits until it is due, and the feed adds it to its track: as one object, or as an object
// for each frame (packages cmaf and loc). Each session has a handler, which answers requests: a SUBSCRIBE becomes a
// delivery, which waits for objects of the track and writes them to the streams of their subgroups; a FETCH is answered
// from the history that the track keeps. Catalogs and the init segment are tracks, too, with one object in each group.
//
// Locks: track.mu guards groups and their objects; delivery.mu guards what a subscriber wants; handler.mu counts
// deliveries. delivery.mu is held while an update is answered, which takes track.mu and a lock of the session.
// Otherwise, none of them is held while another one is taken.
package pub
