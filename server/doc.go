// Package server is a whole relay: it puts the UDP port, the media sender, the fast path in the kernel and the MoQT
// relay together. To build a relay of your own, start here.
//
// A [Server] consists of
//
//   - a [transport.Listener], which accepts raw QUIC connections and WebTransport sessions on one UDP port,
//   - a [media.Loop], in which each connection has a media sender, with shards for each of the listener's sockets,
//   - a [relay.Relay], which serves the sessions: namespaces, tracks, subscriptions, FETCH,
//   - where the kernel allows it, a [fastpath.FastPath], which forwards packets with media on the same connections
//     before user space sees them.
//
// [Listen] makes them, [Server.Serve] accepts connections until its context is done, and [Server.Drain] asks the peers
// to move on, waits for them and closes everything. A [Config] needs a certificate; the zero value of all else is the
// default:
//
//	s, err := server.Listen(server.Config{
//		Transport:     transport.ListenConfig{CertFile: "cert.pem", KeyFile: "key.pem"},
//		NewDropPolicy: func() media.DropPolicy { return new(media.PriorityDrop) },
//	})
//	…
//	err = s.Serve(ctx)
//	err = errors.Join(err, s.Drain("", 10*time.Second))
//
// While one process of a relay replaces another (package [sluice/server/handover]), the server of each has links with
// those of the others ([Server.LinkTo]), over a private port on the loopback interface.
//
// A Server can subscribe at other relays for what nobody publishes here ([Config.Upstream]). It
// dials them from its own port, with media senders of the same loop. Package [sluice/internal/keep] keeps the sessions:
// it connects again when one is lost, and follows GOAWAY.
//
// A relay developer replaces parts in Config: the congestion controller and the drop policy of each connection, the
// choice of subscribers that the kernel serves ([relay.FastPathPolicy]) and the permissions of peers
// ([relay.Authorizer]). The module in examples/relay replaces the first three.
//
// [Server.JoinCluster] makes the relay a node of a cluster, whose nodes feed each other (package
// [sluice/server/cluster]), and send clients to the nearest node.
//
// Servers of other protocols beside this one make sessions for their clients ([Server.DialFor]).
//
// A Server is a [prometheus.Collector] of what all its parts count. [Server.Status] describes its sessions.
package server
