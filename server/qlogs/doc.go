// Package qlogs writes qlogs of connections to files of a bounded directory.
//
// A file is a JSON text sequence (RFC 7464), as draft-ietf-quic-qlog-main-schema has it for streamed events. It has the
// QUIC and HTTP/3 events of quic-go, and the MoQ events of package moqt/qlog. Secrets are left out before an event is
// encoded: tokens, stateless reset tokens, queries, and the values of most header fields.
//
// A qlog never makes a connection wait. Events are encoded where they happen and wait in memory, up to a limit, for a
// goroutine that writes. If that fails, or is too slow, the qlog of the connection ends, and the connection goes on.
package qlogs
