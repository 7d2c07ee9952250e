// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The transport layer: QUIC packets in UDP datagrams.
//
// What it promises to the layers above:
//
//	parse_datagram    recognizes a whole UDP datagram in an Ethernet frame (udp.h)
//	accept_headers, accept_path, accept_checksum
//	                  tell whether the stack would hand the datagram to the socket (accept.h)
//	open_packet       returns PACKET_OPENED only if the AEAD tag verifies. The plaintext then lies at IN + PAYLOAD_AT
//	                  of the scratch, len bytes (open.h)
//	take_number       returns PACKET_OPENED once for each packet (numbers.h)
//	walk_frames       lists the STREAM and DATAGRAM frames of the plaintext; each lies within it. If one frame of the
//	                  packet reaches beyond it, no frame can be trusted (frames.h)
//	stream_header_len, write_stream_header
//	                  the header of a STREAM frame (frames.h)
//	seal_packet       leaves a copy in OUT: the short header, protected, then payload and tag. Each packet number is
//	                  sealed once, because it was claimed once (seal.h)
//
// It knows connections by their index, and nothing about the contents of streams and datagrams.
#pragma once

#include "accept.h"
#include "frames.h"
#include "numbers.h"
#include "open.h"
#include "seal.h"
#include "udp.h"
