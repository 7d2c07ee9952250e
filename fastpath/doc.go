// Package fastpath is a forwarder: the kernel forwards media packets to subscribers, still encrypted.
//
// The programs of package [sluice/fastpath/bpf] see each packet before user space does. This package loads them and
// keeps their maps up to date: connections, their keys and paths, tracks and their subscribers. It moves no packet
// itself. Package [sluice/claim] holds the state that both senders of a connection share, and the protocol for sharing
// it.
//
//	 publisher                                                      subscribers
//	     │ QUIC packet                                                ▲   ▲   ▲
//	     ▼                                                            │   │   │
//	┌─ server_ingress ──────────────────────┐  clone   ┌─ client_egress ───────────┐
//	│ transport    open, walk the frames    │ ───────► │ exchange the clone's      │
//	│ application  which track, what to     │          │ contents for the copy;    │
//	│              rewrite, what priority   │          │ learn neighbours from the │
//	│ fan-out      for each subscriber:     │          │ stack's own packets       │
//	│   route, budget, policy, claim, seal  │          └───────────────────────────┘
//	└───────────────────────────────────────┘                         ▲
//	     │ the same packet, unchanged                                 │ declined bytes, retransmissions
//	     ▼                                                            │
//	 UDP socket ──► quic-go ──► relay ──► log ──► media.Sender ───────┘
//	                   │           │                   │
//	        keys, ids, │   tracks, │                   │ adopts streams that the kernel opened
//	        paths      ▼           ▼                   ▼
//	           ForwarderConn  ForwardedTrack       ForwarderConn
//	              └──────────── package fastpath ─────────────┘ ──► maps, shared memory
//
// Publisher and subscriber are MoQT's words: either may have dialed the relay, or may have been dialed by it.
//
// This is the way of a packet. The program opens it with the publisher's keys, which [claim.ForwarderConn.ReadKeys] has
// put into a map. The first frame of a stream carries SUBGROUP_HEADER with a track alias. If [ForwardedTrack.Forward]
// has put that alias into a map, the program opens a stream for each subscriber in the track's list, claims the bytes,
// and sends a copy; later frames find the stream by the publisher's stream id. Then user space gets the packet. The
// relay tells [ForwardedTrack.Receive] about the stream, and the media sender asks [claim.ForwarderConn.OpenStream] for
// the state of each downstream stream: it finds the stream open and adopts it, or opens it now. From then on both move
// the same cursor. When the publisher's stream has been read to its end, and no run is left that may open one,
// streams that the kernel opened and no subscription wants are abandoned.
//
// RTP of RTSP clients has a program of its own, rtp_ingress, which shares the fan-out's parts. [RTPMedia] tells it of a
// publisher's media, and knows which players have a packet. A media can have more players than one run can serve. Then
// rtp_ingress gives the packet to workers, which serve the others by BPF_PROG_RUN, a few players at a time (workers,
// worker).
//
// Both senders ask an operator's rule which copies may go. It is linked into the programs before they are loaded
// ([Rule]).
//
// The central types are [FastPath], the forwarder; conn, a connection as subscriber and as publisher; [ForwardedTrack];
// and reclaimer, the goroutine that frees memory for others when no run of a program can still be using it.
//
// # Locks
//
// Locks are taken in this order: the media sender's, which it holds while it calls the methods of conn; FastPath.life,
// for reading; pool.room or ForwardedTrack.mu; conn.mu or RTPMedia.mu; pool.mu, reclaimer.mu, rtp.mu or signal.mu.
// While one of the last four is held, no other is taken. The function that abandons a stream takes the media sender's
// lock, so it is called with none of these held except life. Programs take no locks: the values that they read are
// replaced as a whole, or changed atomically.
package fastpath
