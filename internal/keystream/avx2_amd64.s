#include "textflag.h"

// Each of the sixteen words of the state has a register with that word of eight blocks, one in each lane. Words 0 to 3
// are in the frame instead, at 0(SP), and Y0 to Y3 are free for intermediate results.

DATA lanes<>+0(SB)/4, $0
DATA lanes<>+4(SB)/4, $1
DATA lanes<>+8(SB)/4, $2
DATA lanes<>+12(SB)/4, $3
DATA lanes<>+16(SB)/4, $4
DATA lanes<>+20(SB)/4, $5
DATA lanes<>+24(SB)/4, $6
DATA lanes<>+28(SB)/4, $7
GLOBL lanes<>(SB), RODATA|NOPTR, $32

// Byte shuffles that rotate words.
DATA left16<>+0(SB)/8, $0x0504070601000302
DATA left16<>+8(SB)/8, $0x0d0c0f0e09080b0a
DATA left16<>+16(SB)/8, $0x0504070601000302
DATA left16<>+24(SB)/8, $0x0d0c0f0e09080b0a
GLOBL left16<>(SB), RODATA|NOPTR, $32

DATA left8<>+0(SB)/8, $0x0605040702010003
DATA left8<>+8(SB)/8, $0x0e0d0c0f0a09080b
DATA left8<>+16(SB)/8, $0x0605040702010003
DATA left8<>+24(SB)/8, $0x0e0d0c0f0a09080b
GLOBL left8<>(SB), RODATA|NOPTR, $32

// HALF does half of four quarter rounds (RFC 8439 §2.1): word i of the frame += b, d ^= it, d <<<= the shuffle; c += d,
// b ^= c, b <<<= n.
#define ADD_XOR(i, t, b, d) \
	VPADDD i*32(SP), b, t; \
	VMOVDQU t, i*32(SP); \
	VPXOR t, d, d
#define SHUFFLE(shuffle, d) VPSHUFB shuffle<>(SB), d, d
#define ADD_XOR_C(b, c, d) \
	VPADDD d, c, c; \
	VPXOR c, b, b
#define ROTATE(n, t, b) \
	VPSLLD $n, b, t; \
	VPSRLD $(32-n), b, b; \
	VPOR t, b, b
#define HALF(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3, shuffle, n) \
	ADD_XOR(0, Y0, b0, d0); ADD_XOR(1, Y1, b1, d1); ADD_XOR(2, Y2, b2, d2); ADD_XOR(3, Y3, b3, d3); \
	SHUFFLE(shuffle, d0); SHUFFLE(shuffle, d1); SHUFFLE(shuffle, d2); SHUFFLE(shuffle, d3); \
	ADD_XOR_C(b0, c0, d0); ADD_XOR_C(b1, c1, d1); ADD_XOR_C(b2, c2, d2); ADD_XOR_C(b3, c3, d3); \
	ROTATE(n, Y0, b0); ROTATE(n, Y1, b1); ROTATE(n, Y2, b2); ROTATE(n, Y3, b3)

// WORD puts word i of the input, in all lanes, into y.
#define WORD(i, y) VPBROADCASTD i*4(SI), y
#define ADD_WORD(i, y) \
	VPBROADCASTD i*4(SI), Y14; \
	VPADDD Y14, y, y

// STORE writes four words of the eight blocks, which are in a to d, to offset at of each block. It changes Y12 to Y15.
#define STORE(at, a, b, c, d) \
	VPUNPCKLDQ b, a, Y12; \
	VPUNPCKHDQ b, a, Y13; \
	VPUNPCKLDQ d, c, Y14; \
	VPUNPCKHDQ d, c, Y15; \
	VPUNPCKLQDQ Y14, Y12, a; \
	VPUNPCKHQDQ Y14, Y12, b; \
	VPUNPCKLQDQ Y15, Y13, c; \
	VPUNPCKHQDQ Y15, Y13, d; \
	VMOVDQU X(a), at+0*64(DI)

