package claim

import (
	"net/netip"

	"sluice/moqt"
)

// SecondSender is an [Arena] whose state another sender shares: one that sends by the claim protocol what it sees before this process
// does. Package fastpath's is the kernel. What it does not send, this process does.
type Forwarder interface {
	Memory
	// Connect makes the connection that s belongs to, which Subscriber returned, known. abandon resets a stream that the second sender
	// has opened and that OpenStream will not be called for.
	Connect(s *ConnState, abandon func(*StreamState)) ForwarderConn
}

// SecondConn is a connection that a [SecondSender] sends on, or receives from. Its methods do not block, and may be called on any goroutine.
type ForwarderConn interface {
	// ConnectionID reports that the peer may address packets to an id of ours, or not any more.
	ConnectionID(id []byte, usable bool)
	// Received reports the largest packet number received so far, with each packet.
	Received(largest int64)
	// Acknowledged says that an ACK was processed: packets have been sent, and the peer waits for others. What they need may be prepared.
	Acknowledged()
	// ReadKeys and WriteKeys report the keys of a key phase, counted from 0. HeaderProtection is valid in phase 0, for all phases.
	ReadKeys(phase uint64, k *PacketKeys)
	WriteKeys(phase uint64, k *PacketKeys)
	// SetSession reports what precedes the data of streams and datagrams, and whether the peer puts the same in front of its own.
	SetSession(Session)
	// SetPath reports the path, when packets may be sent from now on, and its changes.
	SetPath(Path)
	// OpenStream returns the state of the stream that brings up to this connection's peer; nil if the second sender does not take part.
	// theirs says that it was opened by the second sender. If not, nobody else touches it until it is streamOpen.
	OpenStream(up *PublisherStream) (state *StreamState, theirs bool)
	// CloseStream returns what OpenStream returned, or abandon was called with, when nothing more is sent on it.
	CloseStream(*StreamState)
	// Close forgets the connection and erases its keys.
	Close()
}

// PacketKeys are the keys of one direction for AEAD_CHACHA20_POLY1305 (RFC 9001 §5.1).
type PacketKeys struct {
	Key, HeaderProtection [32]byte
	IV                    [12]byte
}

// Session is what a second sender has to know of a session.
type Session struct {
	StreamPrefix   []byte // of unidirectional streams
	DatagramPrefix []byte
	// ErrorCode maps an application's stream reset code to the one on the wire. Default: the same.
	ErrorCode func(uint64) uint64
	Layout    moqt.DataLayout // of the headers that precede media
}

// SecondPath is where packets go.
type Path struct {
	Local, Remote netip.AddrPort
	OOB           []byte // control messages that choose the source address, if Local does not say it
	DestConnID    []byte
	MaxStreamData uint64 // initial limit of unidirectional streams
	// MaxDatagramFrame is the peer's max_datagram_frame_size (RFC 9221 §3).
	MaxDatagramFrame uint64
}

// Upstream is the stream of another connection that a log is a copy of.
type PublisherStream struct {
	Conn     ForwarderConn
	StreamID int64
	// Prefix and Start are those of a stream that the second sender opened when the stream began: it sends all of it.
	Prefix []byte
	Start  int64
}
