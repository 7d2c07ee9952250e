// Package moqt encodes and decodes the wire format of Media over QUIC Transport (draft-ietf-moq-transport). It works on
// bytes and on io.Readers, and has no connections: package session opens the streams and keeps the state of a session.
// It knows the drafts 16 and 18 to 22. Section numbers in comments ("draft §10.2") refer to draft-18, unless they name
// another draft.
//
// # Versions
//
// A [Version] is chosen by ALPN when a session starts, and is an argument of all functions whose result depends on it.
// One table holds the differences between versions: which messages exist, where they may be sent, which parameters they
// have, which types streams and datagrams start with (drafts.go). Messages are the same Go types in all versions. A
// value has one meaning, however a version expresses it: the range of a [Fetch] is in its fields, although newer
// versions send it in a parameter. A value that a version cannot express is an error of [AppendMessage], but parameters
// that it lacks are left out. The headers that precede media have a name of their own, [DataLayout], because the
// kernel's programs read and write them too.
//
// # Control messages
//
// Each message is a struct named after it, such as [Subscribe] or [RequestOK]; pointers to them are [Message]s.
// [AppendMessage] encodes one. A [Reader] returns the messages of a stream one by one:
//
//	r := moqt.NewReader(stream, version)
//	m, err := r.Read()
//	...
//	err = moqt.Context{Stream: moqt.MessageSubscribe, FromResponder: true}.Check(version, m)
//
// Decoding checks everything that does not depend on the stream. [Context.Check] checks the rest: whether the message
// may appear on that stream, from that end, with these parameters.
//
// In draft-16 the messages of all requests share a stream, and refer to their requests: see [Reference].
//
// [Parameters] is one struct for all messages; the table says which message may have which parameter. [Properties] stay
// encoded, because relays forward them byte by byte; its methods find and check single values.
//
// # Data streams and datagrams
//
// A unidirectional stream starts with a type ([ParseStreamKind]) and a header ([ParseSubgroupHeader],
// [ParseFetchHeader]). Objects follow. [SubgroupParser] and [FetchParser] take the bytes as they arrive, in pieces of
// any size, and return where each object lies. They skip payloads, and copy only headers that are spread over several
// reads. [SubgroupEncoder] and [FetchEncoder] are their counterparts: they write the bytes before a payload, so that
// the payload can be sent from where it is. A datagram is one object ([ParseObjectDatagram], [AppendDatagramHeader]).
//
// # Errors
//
// The type of an error tells the caller what to do:
//
//   - [ErrIncomplete]: parse again with more bytes. At the end of a stream it means that the structure is truncated.
//   - [ProtocolError]: close the session with its code.
//   - [MalformedTrackError]: cancel the subscriptions and fetches of the track, and keep the session.
//   - [ErrPropertiesTooLong]: stop the stream with EXCESSIVE_LOAD.
//
// Encoders refuse values that a receiver would have to refuse. Their errors have none of these types: the peer did
// nothing wrong.
package moqt
