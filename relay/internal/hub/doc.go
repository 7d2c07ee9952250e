// Package hub brings the publishers and subscribers of each track together. A [Directory] finds the [Hub] of a track by
// scope and name.
//
//	publisher                      hub of a track                       subscriber
//	    │         ┌───────────────────────────────────────────┐             │
//	    │ PUBLISH │ publishers    an upstream for each        │  SUBSCRIBE  │
//	    │         │ choice        where to subscribe          │             │
//	    ├────────▶│ demand        what they are asked for     │◀────────────┤
//	    │◀────────┤ subscribers   a downstream for each       ├────────────▶│
//	    │SUBSCRIBE│ acceleration  what the kernel forwards    │   PUBLISH   │
//	    │         └───────────────────────────────────────────┘             │
//	    │                                                                   │
//	    │ streams ┌──────────┐        ┌──────┐        ┌──────────┐  streams │
//	    ├────────▶│ receiver ├───────▶│ logs ├───────▶│ delivery ├─────────▶│
//	    │         └──────────┘        └──────┘        └──────────┘          │
//
// A hub knows a session by a [Peer]: its connection, its [Terms], who runs it ([Owner]), and the permission of each
// request ([Permit]). What it needs of the relay is in its [Config]. Each request about a track is represented by a
// type while it lasts:
//
//   - SUBSCRIBE becomes a downstream, a subscriber of the hub. The hub subscribes at the publishers that announced the
//     namespace (an upstream each), and accepts the downstream as soon as one of them forwards objects. The delivery of
//     the downstream then opens a stream for each segment of the track that the subscriber wants.
//   - PUBLISH becomes an upstream, and the hub offers the track to the peers that asked for such tracks: a PUBLISH of
//     the relay for each, which is a downstream too.
//   - FETCH becomes a Fetch (package fetch), which sends what the cache has, and asks publishers for the rest.
//   - PUBLISH_NAMESPACE, SUBSCRIBE_NAMESPACE and SUBSCRIBE_TRACKS are entries of trees by namespace in the directory.
//
// The receiver of an upstream puts the bytes of each subgroup stream into a log of package track, which tells the hub
// of each new segment. A media sender (package media) then sends the log to each subscriber, after a prefix of its own.
//
// # Who feeds whom
//
// The tracks that a peer brings are published in this process, in another process of this relay, or at another relay.
// Its terms say at which of these distances, and up to which distance it gets tracks. A hub asks the nearest peers
// first. One that has no publisher of its own asks neighbours:
//
//	choice.ask       subscribes at all processes, or at the first upstream relay that has not refused
//	choice.askAgain  asks them to wait for a publisher, while subscribers do
//	choice.settle    ends what nobody needs, or another one has made superfluous
//	choice.sources   whom to ask for objects that are missing, or the status of the track
//	refill           fetches the objects that were missed before a neighbour began to bring the track
//
// Relays may have each other as upstream relays, in circles of any length. What goes from relay to relay carries the
// Hop IDs that it has come through (see [session]), and an asker is a peer with the path of its request. A hub neither
// waits for a relay through which a request has come, nor feeds one through which the objects have come.
//
// # Renditions
//
// A subscriber may have the relay choose among its subscriptions to several renditions of a content: a renditionSet has
// them. It serves one of them at a time, by the Forward State and the range of its delivery, and changes both where a
// group starts. Package rendition has the rule.
//
// # Locks
//
// Locks are taken in this order. A lock may be taken while any of those before it are held:
//
//	renditionSets.mu which rendition of a set is served
//	Mirror.mu        what a neighbour tells of its publishers
//	Directory.mu     the hubs, and the requests for tracks below prefixes
//	names.Space      its own
//	Hub.mu           everything about one track, parts of the hub included
//	streams.mu       what the media sender's callbacks change
//
// Locks of sessions, of upstream relays, of package fetch and of single types (Peer.mu, TracksWatch.mu) are taken last;
// only the lock of accounts comes after them. Types that change the directory say so, and their locks are taken first.
// A hub's lock is taken while the track's sources hold their own. Sessions and media senders are called with locks
// held, as they do not block.
//
// A function whose name ends in Locked expects the lock that its comment names. All methods of the parts of a hub
// (publishers, choice, outage, description, demand, subscribers, acceleration) and of a delivery expect Hub.mu; those
// of the directory's trees expect Directory.mu.
package hub
