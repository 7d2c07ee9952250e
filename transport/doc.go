// Package transport gives MoQ its transport sessions (draft-ietf-moq-transport-18 §3): raw QUIC connections and
// WebTransport sessions, on one UDP port.
//
// A [Conn] is one session. It looks the same over both: streams, datagrams, a close with a code and a reason, and
// errors of two types, [StreamError] and [SessionError]. [Dial] opens a session at a moqt:// or https:// URL, and a
// [Listener] accepts sessions of both kinds:
//
//	UDP port ── quic-go ──┬─ ALPN moqt-… ─► quicSession ──┬─► Listener.Accept
//	                      └─ ALPN h3 ──► wtServer ──► wtSession ──┘
//
// The QUIC connections are quic-go's, with the patches in third_party. They let another sender use a connection: the
// hooks that NewHooks of a configuration returns are called for each connection, and Conn has what such a sender needs
// (Hooks, StreamPrefix, DatagramPrefix, StreamErrorCode). Package media is such a sender. It writes to the listener's
// own sockets ([Listener.PacketConns]).
//
// A listener may have several sockets at its port, each with a reader and with connections of its own
// ([ListenConfig.Sockets]). They share the limits and the keys.
//
// A listener also opens sessions, from its own sockets ([Listener.Dial]): a relay that subscribes at another one needs
// no other port, and the same senders serve both kinds of connections.
//
// Servers that belong together have [MutualTLS] at the same port: they show each other certificates of their own
// authority. Other clients see the listener's public certificate, and are asked for none.
//
// On Linux the listener's sockets can let packets gather before they wake their readers ([ListenConfig.Coalesce]).
//
// Importing this package makes TLS 1.3 servers of the whole process prefer ChaCha20-Poly1305, the only cipher suite
// that the kernel's fast path has. Processes without it call [OfferStockSuites].
//
// Locks: Listener.mu guards the sessions that Close ends, and reloaded.mu the content of files. Each is
// held for a few instructions, or to read the files, and no other lock is taken meanwhile.
package transport
