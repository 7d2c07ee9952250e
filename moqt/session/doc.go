// Package session runs MoQ sessions (draft-ietf-moq-transport): control streams, requests, and the data that belongs to
// them. Package moqt encodes and decodes the messages; this package enforces who may send which, and when.
//
// # A session
//
// [New] makes a [Session] on a transport session, and [Session.Run] runs it until it ends. SETUP is queued at once. The
// peer's SETUP goes to [Handler.HandleSetup]; then [Session.Ready] is closed. Both ends may send requests before that.
// Requests, data streams and datagrams of the peer wait until its SETUP has arrived.
//
// A session ends when one end closes it, when the connection is lost, or when the peer breaks a rule and the draft
// closes the session for that. Run returns when all goroutines of the session have ended.
//
// # A request
//
// Each request is a bidirectional stream. The methods of Session send requests, and return a value for each type of
// request. [Handler] gets the requests of the peer:
//
//	message              sent by                      returns                  at the other end
//	SUBSCRIBE            Session.Subscribe            Subscription             HandleSubscribe(*Publication)
//	PUBLISH              Session.Publish              Publication              HandlePublish(*Subscription)
//	FETCH                Session.Fetch                Fetch                    HandleFetch(*IncomingFetch)
//	TRACK_STATUS         Session.TrackStatus          the response             HandleTrackStatus
//	PUBLISH_NAMESPACE    Session.PublishNamespace     PublishedNamespace       HandlePublishNamespace
//	SUBSCRIBE_NAMESPACE  Session.SubscribeNamespace   NamespaceSubscription    HandleSubscribeNamespace
//	SUBSCRIBE_TRACKS     Session.SubscribeTracks      TracksSubscription       HandleSubscribeTracks
//
// All of them embed [Request], which has their common parts: the stream, updates, GOAWAY. Each type implements its
// role, which has the rest. A request of this end goes through four steps:
//
//  1. The requester checks that the request is allowed, opens a stream, adds the request to the requestTable, and
//     queues the message.
//  2. A requestReader reads the responder's side of the stream. The first message is the response. It goes to the role,
//     and Wait returns.
//  3. Later messages are updates, responses to updates, GOAWAY, and messages that only this type of request has, such
//     as PUBLISH_DONE.
//  4. The request ends: it is complete, refused, or cancelled by either end. It leaves the table, and its Context is
//     done.
//
// A request of the peer is checked against the limits, added to the table and handed to the Handler by the responder.
// The application answers it. The rest is the same.
//
// A [Subscription] ends later than its stream: PUBLISH_DONE may arrive before the last data streams, so its drain waits
// for them.
//
// In draft-16, requests have no streams of their own, but for SUBSCRIBE_NAMESPACE: sharedControl reads the only control
// stream and hands each message to the sharedStream of its request, which takes the place of a stream in the steps
// above.
//
// # Data
//
// A subgroup stream or a datagram names its subscription by Track Alias. Streams overtake each other, so data may
// arrive before the message that assigns the alias: dataStreams and datagrams hold it for a short time. Data of a known
// subscription goes to its [Receiver]. The application sends data with [Publication.OpenSubgroup] and
// [Publication.SendDatagram], or directly on the transport, and then reports the number of streams
// ([Publication.AddStreams]).
//
// # Hops
//
// A relay has a Hop ID (Config.HopID). If the peer has one, too, messages about namespaces carry the Hop IDs that they
// have come through (draft-lcurley-moq-cluster); between two Sluices, requests and SUBSCRIBE_OK do as well. The
// application passes on the path that it has received, and the session adds its own Hop ID, or leaves out the path
// where the peer takes none. It does not send a message that has come through the peer ([ErrLoop]), and refuses a
// message that has come through this end. So nothing goes round in a circle of relays.
//
// # Goroutines
//
// A session has one goroutine that accepts requests, one that accepts unidirectional streams, and one that receives
// datagrams. Each unidirectional stream of the peer has one, which also runs the Receiver. Each request has one that
// reads; each request of the peer has another that runs the Handler. An outbox has one while messages wait to be
// written. The methods of Request and Session only queue messages, so sending never blocks.
//
// # Locks
//
// Session.mu guards the requestTable and the changing state of all requests. Functions whose names end in Locked expect
// the caller to hold it (in an outbox: outbox.mu); so do all methods of requestTable, aliasTable and keptTokens. The
// order is:
//
//	datagrams.receiving, NamespaceSubscription.calls  (held while the application is called)
//	Session.mu
//	outbox.mu, requestIDs.mu
//	taskGroup.mu
//
// tokenCache.mu is never held together with another lock. Methods of Handler and Receiver, and callbacks, are called
// without Session.mu.
package session
