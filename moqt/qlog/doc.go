// Package qlog makes qlog events of MoQT (draft-pardue-moq-qlog-moq-events-05), for the qlog of a QUIC connection.
//
// An event has no token and no payload: of an authorization token its type and alias, of a path no query, and of
// properties, options and URIs that may hold anything only the length. It is encoded before the call that records it
// returns, because messages change afterwards; [qlogwriter.Recorder]s that encode later must not be used.
package qlog
