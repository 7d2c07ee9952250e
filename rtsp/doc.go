// Package rtsp serves RTSP clients beside a relay: those that publish (ANNOUNCE, RECORD) and those that play (DESCRIBE,
// PLAY), with RTP by UDP or on their TCP connections. The path of a URL is the namespace of the broadcast.
//
// The library gortsplib reads and writes RTSP, RTP and RTCP. A [Server] has an endpoint for each of its TCP addresses,
// which handles requests. Each session is a [relay.Guest], which has a permission and is charged to accounts.
//
//	publisher ─┬─► stream ──┬──► player      packets with their own SSRC, sequence numbers and timestamps
//	           │     │      ├──► player
//	           │   cache    └──► player      joins at the last key frame
//	           └─► lift ─► uplink ─► relay   frames, as a MoQ broadcast, while subscribers want it
//
//	relay ─────► downlink ─────► stream      packets made of the frames of a MoQ broadcast, while players want it
//
// A stream has the packets of a publisher. Each player gets the same payloads; a shift of the header's fields is all
// that differs. The stream keeps the packets since the last key frame, so that a player can begin with that one: a
// joining player follows the cache with a cursor, not faster than its receive buffer takes, and is live when the cursor
// has reached the end. So there is neither a gap nor a packet twice. A player whose queue is full loses whole groups:
// it goes on with the next key frame. A player that says which packets it lacks gets them from the cache, too.
//
// With a fast path, the kernel sends packets by UDP to players that are live, before the stream has them. Each packet
// comes with the list of the players that have got it, and the stream sends it to the others.
//
// Clients of rtsps:// may use SRTP: the library encrypts and decrypts, and user space sends and takes these packets. A
// player by SRTP has a numbering in place of a shift's sequence numbers, which only go forward; package rtpsplit cuts
// packets that SRTP would make too long. A publisher's packets by SRTP are taken once (lastTaken).
//
// A player by UDP that reports losses gets whole frames, as many as its path carries: package rtpframe decides, for the
// kernel and for the stream.
//
// An uplink takes frames out of the packets and makes CMAF of them, which package pub publishes over a session with the
// relay. While nobody asks for a media track, the lift gives it no packets. After that, it goes on with what the stream
// keeps. A downlink does the reverse: package sub plays a broadcast over a session of the relay with itself, as CMAF,
// and packers make packets of the frames. All players of the broadcast share it, and it ends with the last of them.
//
// Packets by UDP are taken only from the IP address of the publisher's TCP connection, and sent only to the address of
// the player's.
//
// A downlink's session has no rights of its own: its players are a [relay.Audience]. The memory of uplinks and
// downlinks comes from a pool, and each has a share of it.
//
// Locks: Server.mu guards the streams by name; stream.mu guards a stream and its players. Neither is held while the
// other one is taken. lift.mu, held while a publisher's packet is taken, comes before stream.mu. Packets are put into
// the library's queues with stream.mu held, which does not block; by SRTP, the library encrypts them there, too. The
// locks of package fastpath and pool.mu come after stream.mu. Nobody who waits for the kernel's workers holds a lock.
package rtsp
