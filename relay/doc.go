// Package relay connects publishers and subscribers: it serves the requests of MoQT sessions about namespaces, tracks,
// subscriptions and fetches (draft §5, §6, §9, §10).
//
// A program makes a [Relay] with [New], calls [Relay.Run] on a goroutine, and gives each connection to [Relay.Serve].
// [Config] has the replaceable parts: who may do what ([Authorizer]), which sessions see each other's tracks
// ([Scoping]), and to whom the kernel forwards a track ([FastPathPolicy]).
//
// # From a publisher to its subscribers
//
// Each track has a hub, which the directory finds by scope and name. Its publishers and subscribers meet there.
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
// Requests arrive at the type requests, one method for each message. It authorizes a request, acquires the track's hub,
// and leaves the rest to the type that represents the request while it lasts:
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
// Each peer has terms: the tracks that it may bring, get and ask for, and how it is asked. They are made when it
// begins, and are all that differs between kinds of peers. The tracks that a peer brings are published in this process,
// in another process of this relay, or at another relay. Its terms say at which of these distances, and up to which
// distance it gets tracks. A hub asks the nearest peers first.
//
// # Neighbours
//
// A [Neighbor] is a session with another relay. It is a peer of the hub on either side: an upstream where the
// subscribers are, a downstream where the publisher is. There are two kinds, and their terms say what differs:
//
//   - A link is with another process of this relay. While one replaces the other, publishers and subscribers of a track
//     may be with different processes.
//   - A session with an [UpstreamRelay], another relay of any kind, which this one has dialed. It is fed with tracks
//     whose namespaces are announced to it. [Routes] say which of them a hub asks, and in which order.
//
// A hub that has no publisher of its own asks neighbours:
//
//	choice.ask       subscribes at all processes, or at the first upstream relay that has not refused
//	choice.askAgain  asks them to wait for a publisher, while subscribers do
//	choice.settle    ends what another one has made superfluous
//	choice.sources   whom to ask for objects that are missing, or the status of the track
//	refill           fetches the objects that were missed before a neighbour began to bring the track
//
// While a session lasts, it asks the neighbour for the namespaces and tracks that subscribers watch here (watches), and
// announces the namespaces of direct peers (package neighbor). Another process is asked for everything, and also tells which
// tracks are offered.
//
// Relays may have each other as upstream relays, in circles of any length: for each, the one that has dialed it is a
// direct peer. What goes from relay to relay carries the Hop IDs that it has come through (see [session]), and an asker
// is a peer with the path of its request. A hub neither waits for a relay through which a request has come, nor feeds
// one through which the objects have come.
//
// The relays of a cluster know by other means who has a publisher ([Neighbors.MirrorRemote]). One that asks another as
// the origin dials [OriginPath]: such a peer gets what publishers of that relay have, and nothing that its upstream
// relays bring.
//
// # Names
//
// Package names has what peers of the relay publish, and what neighbours tell of theirs, and tells those that watch or
// follow it. The directory has one of its spaces, and wakes the hubs of tracks that get a source.
//
// # Renditions
//
// A subscriber may have the relay choose among its subscriptions to several renditions of a content: a renditionSet has
// them. It serves one of them at a time, by the Forward State and the range of its delivery, and changes both where a
// group starts. Package rendition has the rule.
//
// # Permissions
//
// What an [Authorizer] allows is a lease: a Grant that ends when it expires, or when a review refuses it. A permission
// has one for a request, and a [Guest] has one. Package lease watches them; when one ends, it calls what ends the
// request. So a request cannot keep its permission by waiting for something. The standing of a peer closes a session
// whose SETUP had tokens, when these allow nothing any more.
//
// # Quotas
//
// A request is charged before it is served: to the account of the peer's source address, and to the account of the
// token that allowed it (package charge). An account takes what the request uses from its [Quota], and gets it back
// when the request ends; tracks are given back when the directory drops them. Bytes are measured against rates:
// publishers that exceed theirs are read more slowly, and subscriptions that exceed theirs end.
//
// # Locks
//
// Locks are taken in this order. A lock may be taken while any of those before it are held:
//
//	renditionSet.mu which rendition of a set is served
//	directory.mu    the hubs, and the requests for tracks below prefixes
//	names.Space     its own
//	hub.mu          everything about one track, parts of the hub included
//	streams.mu      what the media sender's callbacks change
//
// Locks of sessions, of upstream relays, of package fetch and of single types (peer.mu, tracksWatch.mu, and standing.mu
// before permission.mu and the locks of package lease) are taken last; only the lock of accounts comes after them. Types
// that change the directory say so, and their locks are taken first. A hub's lock is taken while the track's sources
// hold their own. Sessions and media senders are called with locks held, as they do not block. The lock of accounts is
// also taken while a session holds its own.
//
// A function whose name ends in Locked expects the lock that its comment names. All methods of the parts of a hub
// (publishers, choice, outage, description, demand, subscribers, acceleration) and of a delivery expect hub.mu; those
// of directory's trees expect directory.mu.
package relay
