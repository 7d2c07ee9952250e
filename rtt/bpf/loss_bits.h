// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Losses of QUIC from the loss bits of RFC 9506, which two ends may agree on: they are then where RFC 9000 has the
// reserved bits of a short header, without header protection (draft-mdt-quic-explicit-measurements).
//
// A sender inverts the square bit after each 64 packets. Packets that are missing from such a block were lost before
// they got here. It sets the loss event bit once for each packet that it takes for lost, wherever that was.
//
// Header protection makes the bits of ends that have not agreed look random. A block of such bits ends, by the rule
// below, after 16 packets on average, and four out of 100,000 are as long as a block has to be at first; so a side's
// bits count from the fourth such block in a row on. What the ends have agreed on does not change later.
#pragma once

#include "report.h"

#define QUIC_SQUARE 0x10
#define QUIC_LOSS_EVENT 0x08

#define LOSS_BLOCK 64
// A block has ended when so many packets of the next one have passed: the Marking Block Threshold. Those that are even
// later count in a block that follows, so the sum of many blocks stays right.
#define LOSS_REORDERED 8
#define LOSS_BLOCK_MAX (LOSS_BLOCK + LOSS_REORDERED)
#define LOSS_SURE_MIN 40 // packets of the first blocks: a signal with half as long blocks has fewer
#define LOSS_BLOCK_MIN 16 // of those after them
#define LOSS_SURE_BLOCKS 4

// loss_bits_blocks returns how many blocks the packets of one value were sent in: if a whole block is lost, the two
// around it look like one. 0: the value does not come from the square signal.
INLINE u8 loss_bits_blocks(const struct loss_bits *l)
{
	if (l->run < (l->sure ? LOSS_BLOCK_MIN : LOSS_SURE_MIN))
		return 0;
	if (l->run <= LOSS_BLOCK_MAX)
		return 1;
	return l->sure && l->run <= 2 * LOSS_BLOCK + LOSS_REORDERED ? 3 : 0;
}

// loss_bits_restart forgets uncounted packets, and that the bits are loss bits.
INLINE void loss_bits_restart(struct loss_bits *l, bool began)
{
	l->began = began;
	l->sure = false;
	l->blocks = l->passed = l->marked = 0;
}

// loss_bits_end counts the block that has ended. Ends may use the second bit for another signal, whose value is 1 in
// half of the packets: before the bits count, a quarter must not be marked.
INLINE void loss_bits_end(struct packet *p, struct loss_bits *l)
{
	u8 blocks = loss_bits_blocks(l);

	if (!l->began || !blocks) {
		loss_bits_restart(l, true);
		return;
	}
	l->blocks += blocks;
	l->passed += l->run;
	if (!l->sure && l->blocks < LOSS_SURE_BLOCKS)
		return;
	if (!l->sure && l->marked * 4 > l->passed) {
		loss_bits_restart(l, true);
		return;
	}
	l->sure = true;
	tally_add(TALLY_LOSS_BLOCKS, l->blocks);
	prefix_loss(p, l->blocks * LOSS_BLOCK, l->passed, l->marked);
	l->blocks = l->passed = l->marked = 0;
}

// loss_bits_packet follows the bits of one 1-RTT packet of the packet's sender.
GLOBAL int loss_bits_packet(struct packet *p, struct loss_bits *l, u8 first)
{
	bool value = first & QUIC_SQUARE;

	if (!p || !l)
		return 0;
	l->marked += !!(first & QUIC_LOSS_EVENT);
	if (value == l->value) {
		l->run += l->run < 0xff;
		return 0;
	}
	if (++l->next < LOSS_REORDERED)
		return 0;
	loss_bits_end(p, l);
	l->value = value;
	l->run = l->next;
	l->next = 0;
	return 0;
}
