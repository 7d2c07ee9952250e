// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What became of a packet, a frame, or one subscriber's copy of it. Every way out of a program counts one of these; the
// Go package gives them the same names as labels.
#pragma once

#include "common.h"

enum reason {
	// Packets at server_ingress.
	PACKET_OPENED, // authentic
	PACKET_NOT_MEDIA, // no UDP, or a port or connection of somebody else
	PACKET_LONG_HEADER, // of a handshake
	PACKET_GSO, // several datagrams in one buffer
	PACKET_TOO_SHORT, // for header protection or a tag
	PACKET_TOO_LONG, // for the scratch
	PACKET_INACTIVE, // of a connection that publishes nothing on the fast path
	PACKET_NO_KEY, // of that key phase
	PACKET_FORGED, // the tag does not verify: forged, damaged, or of a key that user space has not yet handed over
	PACKET_MALFORMED, // authentic, but a frame reaches beyond it
	PACKET_UNKNOWN_FRAME, // the frames before it were forwarded
	// Frames.
	FRAME_FORWARDED, // offered to the subscribers of its track
	FRAME_NOT_MEDIA, // a stream that did not begin with a subgroup header, or began before this program ran; no object with a payload
	FRAME_NO_TRACK, // the alias is not, or not yet, that of a track on the fast path
	FRAME_ENDED, // of a stream that user space has read to its end
	FRAME_CLAIMED, // an object datagram that came before
	FRAME_FORGOTTEN, // an object datagram that may have come before: it precedes some of which that is not known any more
	FRAME_NO_SLOT, // too many subgroups or objects at once
	// Copies, when they are sealed.
	SEAL_AHEAD, // with a key stream that user space has made ahead of time
	SEAL_COMPUTED, // with one that was computed here
	// Copies for one subscriber.
	COPY_SENT,
	COPY_BUDGET, // beyond the subscribers that one packet may be copied to
	COPY_NO_PATH, // the subscriber is not served here: its suite is another, or it has gone
	COPY_NO_NEIGHBOR, // the stack has not sent it anything yet, or not for long
	COPY_NOT_OPEN, // the stream was not opened: user space does it, or the subscription does not want it
	COPY_FILTERED, // outside the subscription's range, or it is not forwarding
	COPY_OUT_OF_ORDER, // bytes before it have not been sent, or it was sent already
	COPY_PRIORITY, // below the subscriber's priority threshold
	COPY_STREAM_LIMIT, // MAX_STREAMS
	COPY_STREAM_CREDIT, // MAX_STREAM_DATA
	COPY_CONNECTION_CREDIT, // MAX_DATA
	COPY_WINDOW, // congestion window
	COPY_TOO_LARGE, // for the path MTU, or max_datagram_frame_size
	COPY_LEDGER_FULL,
	COPY_CHECKSUM, // the address family changes and the checksum is left to the device
	COPY_LOST, // claimed, but the clone failed: loss recovery repairs it
	REASON_COUNT,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASON_COUNT);
	__type(key, enum reason); // its names reach the Go package this way
	__type(value, u64);
} reasons SEC(".maps");

INLINE void count(enum reason reason)
{
	u64 *n = bpf_map_lookup_elem(&reasons, &reason);

	if (n)
		(*n)++;
}
