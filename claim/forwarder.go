package claim

import (
	"net/netip"

	"sluice/moqt"
)

// Forwarder is a sender that sees publishers' packets before the media sender does, and sends them on by the claim
// protocol. The media sender sends what the forwarder declines. The forwarder provides the memory that both share. Its
// methods may be called on any goroutine.
type Forwarder interface {
	// Connect returns a connection and its zeroed state, or nil if there is no room: then only the media sender sends.
	// The forwarder calls abandon with a stream that it has opened and that OpenStream will not be called for; the
	// media sender then resets it.
	Connect(abandon func(*StreamState)) (ForwarderConn, *ConnState)
}

// ForwarderConn is a connection that a [Forwarder] sends on, or receives from. Its methods do not block, and may be
// called on any goroutine.
type ForwarderConn interface {
	// Ledger returns the ring of records, whose length is a power of two. The contents are undefined. It is valid until
	// Close.
	Ledger() []Record
	// ConnectionID reports that the peer may address packets to one of our connection IDs, or may no longer do so.
	ConnectionID(id []byte, usable bool)
	// Received reports the largest packet number received so far. It is called with each packet.
	Received(largest int64)
	// Acknowledged reports that an ACK was processed. The peer may now be idle, and the needs of the next packets can
	// be prepared.
	Acknowledged()
	// ReadKeys reports the keys of packets from the peer, by key generation. HeaderProtection is valid in generation 0,
	// for all generations (RFC 9001 §6.1).
	ReadKeys(generation uint64, k *PacketKeys)
	// WriteKeys reports the keys of packets to the peer, as ReadKeys does.
	WriteKeys(generation uint64, k *PacketKeys)
	// SetSession reports the MoQT session. Until it is called, only the media sender sends.
	SetSession(Session)
	// SetPath reports where packets go, as soon as they may be sent, and then each change.
	SetPath(Path)
	// OpenStream returns the state of the stream that brings a publisher's stream to this connection's peer, or nil if
	// the forwarder takes no part. adopted reports that the forwarder has opened the stream, and that the media sender
	// now goes on with it. If not, the media sender has it for itself until its phase is StreamOpen.
	OpenStream(from *PublisherStream) (state *StreamState, adopted bool)
	// CloseStream takes back a state that OpenStream has returned, or that abandon was called with.
	CloseStream(*StreamState)
	// Close forgets the connection and erases its keys.
	Close()
}

// PacketKeys are the keys of one direction for AEAD_CHACHA20_POLY1305 (RFC 9001 §5.1).
type PacketKeys struct {
	Key, HeaderProtection [32]byte
	IV                    [12]byte
}

// Session describes a MoQT session to a forwarder.
type Session struct {
	StreamPrefix   []byte // precedes the data of each unidirectional stream, for WebTransport
	DatagramPrefix []byte // precedes the data of each datagram, for WebTransport
	// ErrorCode maps an application's stream reset code to the code on the wire. Default: the same.
	ErrorCode func(uint64) uint64
	Layout    moqt.DataLayout // of the headers that precede media
}

// Path is where packets go.
type Path struct {
	Local, Remote netip.AddrPort
	OOB           []byte // control messages that choose the source address, if Local does not
	DestConnID    []byte
	// MaxStreamData is the peer's initial_max_stream_data_uni in bytes (RFC 9000 §18.2).
	MaxStreamData uint64
	// MaxDatagramFrame is the peer's max_datagram_frame_size in bytes (RFC 9221 §3).
	MaxDatagramFrame uint64
}

// PublisherStream is the stream of another connection that a log comes from.
type PublisherStream struct {
	Conn     ForwarderConn // of the publisher
	StreamID int64
	// A forwarder that opens the downstream stream sends Prefix first, and goes on from log offset Start.
	Prefix []byte
	Start  int64
	// TrackAlias is in the prefix. A stream that the forwarder has opened for a subscription that is over, of the same
	// subscriber, has another one.
	TrackAlias uint64
}
