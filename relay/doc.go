// Package relay connects publishers and subscribers: it serves the requests of MoQT sessions about namespaces, tracks,
// subscriptions and fetches (draft §5, §6, §9, §10).
//
// A program makes a [Relay] with [New], calls [Relay.Run] on a goroutine, and gives each connection to [Relay.Serve].
// [Config] has the replaceable parts: who may do what ([Authorizer]), which sessions see each other's tracks
// ([Scoping]), and to whom the kernel forwards a track ([FastPathPolicy]).
//
// # From a publisher to its subscribers
//
// Requests arrive at the type requests, one method for each message. It authorizes a request, acquires the hub of the
// track, and leaves the rest to packages that know nothing of this one:
//
//	hub       one track: its publishers and subscribers, and what the kernel forwards
//	fetch     FETCH, from the cache and from publishers
//	names     who publishes in which namespace, and who is told
//	neighbor  what a session with a neighbour tells and asks about names
//	lease     what an Authorizer has granted, while it is in force
//	charge    accounts and quotas
//
// Each peer has terms: the tracks that it may bring, get and ask for, and how it is asked. They are made when it
// begins, and are all that differs between kinds of peers.
//
// # Neighbours
//
// A [Neighbor] is a session with another process of this relay (a link), or with an [UpstreamRelay]. It is a peer of
// the hub on either side: an upstream where the subscribers are, a downstream where the publisher is. While it lasts,
// its watches ask for the namespaces and tracks that subscribers watch here, and its announcer tells in which
// namespaces direct peers publish. Another process is asked for everything, and also tells which tracks are offered.
//
// The relays of a cluster know by other means who has a publisher ([Neighbors.MirrorRemote]). One that asks another as
// the origin dials [OriginPath]: such a peer gets what publishers of that relay have, and nothing that its upstream
// relays bring.
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
// Package hub says in which order its locks are taken. The locks of this package follow: peer.mu, and standing.mu
// before permission.mu and the locks of package lease. The lock of accounts comes last, also while a session holds its
// own.
package relay
