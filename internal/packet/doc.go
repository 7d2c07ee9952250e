// Package packet builds QUIC packets with a short header (RFC 9000 §17.3): it writes frames, and protects packets in
// place (RFC 9001 §5). It also opens small packets, and reads ACK frames.
//
// A [Sealer] holds the keys of one direction of a connection. A [Key] protects the packets of one key generation: TLS
// hands over a traffic secret for each, and [NewKey] derives the keys from it. Derive the next key, install it, and
// only then let packet numbers of the new generation be taken. The sealer keeps the last two generations, because
// packets whose numbers were taken before an update are sealed after it.
//
// A packet is written in the buffer that it is sent from: the header with its connection ID, a packet number of
// [NumberLength] bytes, one frame (AppendStreamHeader, AppendFrame), the data, and behind it room for [TagLength] more
// bytes. [Sealer.Seal] then encrypts it in place, and [Sealer.Protect] protects the headers of all packets that were
// sealed, some at once. They do not allocate.
//
// An [Opener] opens small packets of the other direction, with the newest key. It works on a copy, so that quic-go can
// open the other packets.
//
// The types have no lock: the media sender calls a connection's sealer and opener with its own lock held.
//
// Package packettest opens packets of any size and generation, for tests.
package packet
