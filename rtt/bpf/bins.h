// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The bins of histograms: all of one width, or logarithmic.
//
// There are 32 logarithmic bins for each doubling, so a bin is 2.2 % wide, and its middle at most 1.1 % off. They are
// the buckets of a Prometheus native histogram of schema 5, and of an OTLP exponential histogram of scale 5, in
// seconds: bin i ends at 2^(i/32 - 17) s. Bin 0 has all that is shorter than 2^-17 s (7.6 us).
#pragma once

#include "settings.h"

enum bins {
	LINEAR_BINS = 250, // as many as ePPing has
	BINS = 652, // the last one begins at 9.93 s and also counts all longer RTTs
	BINS_PER_DOUBLING = 32,
	FIRST_DOUBLING = -17, // the power of two of seconds at which bin 1 begins
};

// bin_steps are 2^(i/32) - 1, in units of 2^-32.
static const u32 bin_steps[BINS_PER_DOUBLING] = {
	0x00000000, 0x059b0d31, 0x0b5586cf, 0x11301d01, 0x172b83c7, 0x1d487316, 0x2387a6e7, 0x29e9df51,
	0x306fe0a3, 0x371a7373, 0x3dea64c1, 0x44e08606, 0x4bfdad53, 0x5342b569, 0x5ab07dd4, 0x6247eb03,
	0x6a09e667, 0x71f75e8e, 0x7a11473e, 0x82589994, 0x8ace5422, 0x93737b0c, 0x9c49182a, 0xa5503b23,
	0xae89f995, 0xb7f76f2f, 0xc199bdd8, 0xcb720dce, 0xd5818dcf, 0xdfc97337, 0xea4afa2a, 0xf50765b6,
};

#define BIN_UNIT 30 // times are compared in units of 2^-30 s

// bin_units turns ns below 2^34 into units of 2^-30 s.
INLINE u64 bin_units(u64 ns)
{
	return ns + (ns * 316718722 >> 32); // 2^30 / 10^9 - 1, in units of 2^-32
}

INLINE u32 bin_logarithmic(u64 ns)
{
	u64 units = bin_units(ns < 1ULL << 34 ? ns : (1ULL << 34) - 1);
	u32 doubling, fraction, step = 0;

	if (units >> (BIN_UNIT + FIRST_DOUBLING) == 0)
		return 0;
	doubling = 63 - __builtin_clzll(units);
	fraction = units << (63 - doubling) >> 31; // of the doubling, in units of 2^-32
	for (u32 half = BINS_PER_DOUBLING / 2; half; half /= 2)
		if (fraction >= bin_steps[(step + half) % BINS_PER_DOUBLING])
			step += half;
	return 1 + (doubling - BIN_UNIT - FIRST_DOUBLING) * BINS_PER_DOUBLING + step;
}

// bin_of returns the bin that an RTT belongs to.
INLINE u32 bin_of(u64 ns)
{
	u64 bins = config.bin_width ? LINEAR_BINS : BINS;
	u64 bin = config.bin_width ? ns / config.bin_width : bin_logarithmic(ns);

	return bin < bins ? bin : bins - 1;
}
