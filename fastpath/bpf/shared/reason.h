// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What became of a packet, a frame, or the copy for one subscriber. Every way out of a program counts one reason. Go
// uses the same names, in lower case, as labels.
#pragma once

#include <sluice/types.h>

enum reason {
	// Packets at server_ingress.
	PACKET_OPENED, // authentic
	PACKET_NOT_MEDIA, // not UDP, another port, or an unknown connection
	PACKET_LONG_HEADER, // a handshake packet
	PACKET_INVALID, // the fixed bit is 0, or a reserved bit is not (RFC 9000 §17.3.1)
	PACKET_GSO, // several datagrams in one buffer
	PACKET_OTHER_HOST, // the link-layer address is another host's or of several hosts, or there is a VLAN's tag
	PACKET_BAD_HEADER, // the IP header's checksum is wrong, or IP and UDP disagree about the length
	PACKET_TOO_SHORT, // too short for header protection or a tag
	PACKET_TOO_LONG, // longer than what user space reads of a datagram
	PACKET_INACTIVE, // its connection publishes nothing on the fast path
	PACKET_NO_KEY, // its key phase is not the present one
	PACKET_FORGED, // the tag does not verify: forged, damaged, or of a key that user space has not yet handed over
	PACKET_OTHER_PATH, // its addresses are not those of its connection's path
	PACKET_CHECKSUM, // the UDP checksum is wrong
	PACKET_REPLAYED, // its number has come before
	PACKET_OLD, // its number may have come before: it precedes those that the kernel remembers
	PACKET_MALFORMED, // authentic, but a frame reaches beyond it
	PACKET_UNKNOWN_FRAME, // a frame that the walk does not know; the frames before it were forwarded
	// Packets, when they are opened.
	OPEN_AHEAD, // with a key stream that user space made ahead of time
	OPEN_COMPUTED, // with a key stream that was computed here
	// Frames.
	FRAME_FORWARDED, // offered to the subscribers of its track
	FRAME_NOT_MEDIA, // the stream's SUBGROUP_HEADER was not seen, or the datagram is no object with a payload
	FRAME_EMPTY, // neither data nor the end of a stream
	FRAME_NO_TRACK, // no track on the fast path has the alias, or not yet
	FRAME_ENDED, // user space has read the stream to its end
	FRAME_CLAIMED, // an object datagram that has come before
	FRAME_FORGOTTEN, // an object datagram that may have come before: claims of such old objects are not kept
	FRAME_SHARE, // the publisher has its share of subgroups or objects
	FRAME_NO_SLOT, // no memory for one more subgroup or object
	// Jobs of workers, for RTP packets that are offered to more players than one run serves.
	JOB_GIVEN, // to a worker, with its part of the copies
	JOB_BUSY, // not given, because a worker was late a short time ago: user space sends
	JOB_SHARE, // not given, because the publisher has its share of jobs
	JOB_FULL, // not given, because the worker's ring is full
	JOB_CONTINUED, // some of its copies were offered
	JOB_LATE, // given up: user space has gone on meanwhile
	JOB_ENDED, // given up: user space has gone on behind the packet, or the media has another publisher
	// RTP packets of RTSP publishers at rtp_ingress. It also counts PACKET_GSO, PACKET_OTHER_HOST, PACKET_BAD_HEADER,
	// PACKET_TOO_SHORT, PACKET_TOO_LONG, PACKET_OTHER_PATH and PACKET_CHECKSUM.
	RTP_FORWARDED, // offered to the players of its media
	RTP_NOT_MEDIA, // not UDP, or another port
	RTP_UNKNOWN, // no media on the fast path comes from that address and port
	RTP_HEADER, // no RTP, or with padding or an extension: user space writes these anew
	RTP_PAYLOAD_TYPE, // not the media's
	RTP_SSRC, // not the media's, or not known yet
	RTP_PAUSED, // user space does not take the publisher's packets: its quota is used up
	RTP_OLD, // user space has gone on behind it
	RTP_AHEAD, // user space is too far behind it
	RTP_CLAIMED, // it has come before
	// Copies, when they are sealed.
	SEAL_AHEAD, // with a key stream that user space made ahead of time
	SEAL_COMPUTED, // with a key stream that was computed here
	// Copies for one subscriber.
	COPY_SENT,
	COPY_BUDGET, // beyond the work that one packet may cause
	COPY_NO_PATH, // the fast path does not serve the subscriber: its cipher suite is another, or it has gone
	COPY_NO_NEIGHBOR, // the stack has not sent to the subscriber yet, or not for a long time
	COPY_NOT_OPEN, // the stream is not open: user space opens it, or the subscription does not want it
	COPY_FILTERED, // outside the subscription's range, or the subscription does not forward
	COPY_EMPTY, // nothing is left to send: the frame has a header only, which was sent
	COPY_OUT_OF_ORDER, // bytes before it have not been sent, or it was sent already
	COPY_PRIORITY, // the level is above the connection's threshold
	COPY_BUCKET, // the bytes that the path is to carry are kept for more important levels
	COPY_POLICY, // the operator's policy declines it
	COPY_FRAME, // RTP: the frame does not go to the player, as the policy has decided about another packet of it
	COPY_DEPENDENT, // RTP: a frame before it does not go, on which it may depend
	COPY_STREAM_LIMIT, // MAX_STREAMS
	COPY_NO_SLOT, // no memory for one more stream, or not yet: user space opens it
	COPY_STREAM_SHARE, // the connection has as many streams in the kernel as one may have: user space opens it
	COPY_STREAM_CREDIT, // MAX_STREAM_DATA
	COPY_CONNECTION_CREDIT, // MAX_DATA
	COPY_WINDOW, // congestion window
	COPY_PACED, // pacing: its time has not come, or what waits for it in user space goes first
	COPY_TOO_LARGE, // larger than the path's MTU or max_datagram_frame_size allows
	COPY_LEDGER_FULL, // too many packets are not acknowledged yet
	COPY_CHECKSUM, // RTP: the packet has no UDP checksum, and the player has IPv6, which requires one
	COPY_LOST, // claimed, but the clone failed: loss recovery sends the bytes again, or user space the RTP packet
	REASON_COUNT,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASON_COUNT);
	__type(key, enum reason);
	__type(value, u64);
} reasons SEC(".maps");

INLINE void count(enum reason reason)
{
	u64 *n = bpf_map_lookup_elem(&reasons, &reason);

	if (n)
		(*n)++;
}
