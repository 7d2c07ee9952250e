// Package cluster lets relays find each other: which nodes there are, which of them has a publisher for a namespace
// (a route), and whom a node asks for a track. Media do not pass here: nodes feed each other over MoQT.
//
// A [Node] joins a cluster with [Join], over an [Engine] that carries messages between the nodes. [Node.Advertise]
// and [Node.Withdraw] tell the others about its own publishers, [Node.Watch] tells about theirs, and [Node.Choices]
// says whom to ask. Package natsengine has the engines that relays use, package clustertest one for tests.
//
// # Soft state
//
// Nothing is stored. Each node keeps a table of all others and their routes, which their messages build:
//
//	beat    once a second: the node is alive, its Card, its epoch and the version of its routes
//	route   one namespace has come or gone; the version counts these changes
//	ask     send me your routes
//	snap    all routes of a node, in parts
//	bye     the node leaves
//	near    how far networks of clients are from the node
//	taken   the tokens that operators have withdrawn
//
// The epoch is the time at which a node joined. A message of an earlier epoch, or a change whose version is not the
// next one, changes nothing. An earlier epoch counts only when nothing was heard of the node for the time of a lease:
// then its clock has stepped back. A node that sees a version it does not have asks the sender for a snapshot. So a
// lost message costs one snapshot, and an engine that comes back costs nothing when no route has changed meanwhile.
//
// A node that is silent for [Lease] is dead, and its routes are gone, unless there are other signs of its life
// (Config.IsAlive), each of which counts as long as a message. Nor is it dead if the engine is away: then all would be
// silent, and each node goes on with the routes it knows. A relay that cannot reach a node finds that out by QUIC. An
// engine that works, and has found no other one for [AloneFor], is not away: the others are dead. An engine may be away
// for seconds before it notices. So nodes that fall silent together count as dead only after [AloneFor], too.
//
// # Subjects
//
// A subject is PREFIX.CLUSTER.KIND.NODE, and the rest depends on the kind. The sender's name is in the subject only, so
// that an engine that lets a node publish PREFIX.CLUSTER.*.NODE.> and nothing else keeps nodes from speaking for each
// other. Each namespace has a subject of its own, a token for each field, so that PREFIX.CLUSTER.route.*.a.b.> are the
// routes below a/b. A field that is long, or has bytes that no token may have, becomes a hash: the message has its
// name.
//
// # Withdrawn tokens
//
// A node tells the others at once what its operator withdraws. Each beat has a hash of the node's list. A node that
// sees another hash tells its own list within a second, unless others have told the same meanwhile. So all lists become
// one, of nodes that join later too, whatever messages are lost.
//
// # Who asks whom
//
// The node with the publisher is the origin. In its own region, nodes ask it directly. In another region they ask
// their parent for the namespace, and the parent asks the origin: each track comes into a region once. See [Choices]
// for why no loop is possible, whatever the nodes believe about each other.
//
// # Who sends clients where
//
// The nodes tell each other how far networks are from them ([Networks]). [Node.Nearer] says which node is much nearer
// to a client than this one.
package cluster
