#include "textflag.h"

// A register holds one word of the states of eight blocks, one in each lane. With AVX2, words 4 to 15 are in Y4 to Y15.
// Words 0 to 3, which only take part in additions, are in the frame, so that Y0 to Y3 are free. With AVX-512VL, words 0
// to 3 are in Y16 to Y19.

// Byte shuffles that rotate words left by 16 and by 8.
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

#define ADD_A(i, t, b, d) \
	VPADDD i*32(SP), b, t; VMOVDQU t, i*32(SP); VPXOR t, d, d
#define ADD_C(b, c, d) \
	VPADDD d, c, c; VPXOR c, b, b
#define ROTATE(n, t, b) \
	VPSLLD $n, b, t; VPSRLD $(32-n), b, b; VPOR t, b, b

// HALF_ROUND is one half of four quarter rounds (RFC 8439 §2.1): a += b; d ^= a; d <<<= 16 or 8; c += d; b ^= c;
// b <<<= 12 or 7.
#define HALF_ROUND(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3, shuffle, n) \
	ADD_A(0, Y0, b0, d0); ADD_A(1, Y1, b1, d1); ADD_A(2, Y2, b2, d2); ADD_A(3, Y3, b3, d3); \
	VPSHUFB shuffle, d0, d0; VPSHUFB shuffle, d1, d1; VPSHUFB shuffle, d2, d2; VPSHUFB shuffle, d3, d3; \
	ADD_C(b0, c0, d0); ADD_C(b1, c1, d1); ADD_C(b2, c2, d2); ADD_C(b3, c3, d3); \
	ROTATE(n, Y0, b0); ROTATE(n, Y1, b1); ROTATE(n, Y2, b2); ROTATE(n, Y3, b3)

#define ROUND(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3) \
	HALF_ROUND(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3, left16<>(SB), 12); \
	HALF_ROUND(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3, left8<>(SB), 7)

// ADD_OWN adds what each block has of its own.
#define ADD_OWN \
	VPADDD 0(DX), Y12, Y12; VPADDD 32(DX), Y13, Y13; VPADDD 64(DX), Y14, Y14; VPADDD 96(DX), Y15, Y15

// ADD_COMMON adds a word that all inputs have.
#define ADD_COMMON(i, t, y) \
	VPBROADCASTD i*4(SI), t; VPADDD t, y, y

// TRANSPOSE turns registers with a word of eight blocks each into registers with the four words of blocks 0 and 4, 1 and
// 5, 2 and 6, 3 and 7.
#define TRANSPOSE(a, b, c, d) \
	VPUNPCKLDQ b, a, Y0; VPUNPCKHDQ b, a, Y1; VPUNPCKLDQ d, c, Y2; VPUNPCKHDQ d, c, Y3; \
	VPUNPCKLQDQ Y2, Y0, a; VPUNPCKHQDQ Y2, Y0, b; VPUNPCKLQDQ Y3, Y1, c; VPUNPCKHQDQ Y3, Y1, d

// STORE writes eight words of block n and of block n+4, to offset at of the block.
#define STORE(at, n, lo, hi) \
	VPERM2I128 $0x20, hi, lo, Y0; VMOVDQU Y0, at+n*64(DI); \
	VPERM2I128 $0x31, hi, lo, Y1; VMOVDQU Y1, at+(n+4)*64(DI)

#define LOAD_INPUTS \
	VPBROADCASTD 0(SI), Y0; VPBROADCASTD 4(SI), Y1; VPBROADCASTD 8(SI), Y2; VPBROADCASTD 12(SI), Y3; \
	VPBROADCASTD 16(SI), Y4; VPBROADCASTD 20(SI), Y5; VPBROADCASTD 24(SI), Y6; VPBROADCASTD 28(SI), Y7; \
	VPBROADCASTD 32(SI), Y8; VPBROADCASTD 36(SI), Y9; VPBROADCASTD 40(SI), Y10; VPBROADCASTD 44(SI), Y11; \
	VPBROADCASTD 48(SI), Y12; VPBROADCASTD 52(SI), Y13; VPBROADCASTD 56(SI), Y14; VPBROADCASTD 60(SI), Y15; \
	ADD_OWN

// FINISH_LAST adds words 8 to 15 of the inputs and writes them.
#define FINISH_LAST \
	ADD_COMMON(8, Y0, Y8); ADD_COMMON(9, Y1, Y9); ADD_COMMON(10, Y2, Y10); ADD_COMMON(11, Y3, Y11); \
	ADD_COMMON(12, Y0, Y12); ADD_COMMON(13, Y1, Y13); ADD_COMMON(14, Y2, Y14); ADD_COMMON(15, Y3, Y15); \
	ADD_OWN; \
	TRANSPOSE(Y8, Y9, Y10, Y11); TRANSPOSE(Y12, Y13, Y14, Y15); \
	STORE(32, 0, Y8, Y12); STORE(32, 1, Y9, Y13); STORE(32, 2, Y10, Y14); STORE(32, 3, Y11, Y15)

// FINISH_FIRST adds words 0 to 7 of the inputs and writes them; words 0 to 3 are in Y8 to Y11.
#define FINISH_FIRST \
	ADD_COMMON(0, Y0, Y8); ADD_COMMON(1, Y1, Y9); ADD_COMMON(2, Y2, Y10); ADD_COMMON(3, Y3, Y11); \
	ADD_COMMON(4, Y0, Y4); ADD_COMMON(5, Y1, Y5); ADD_COMMON(6, Y2, Y6); ADD_COMMON(7, Y3, Y7); \
	TRANSPOSE(Y8, Y9, Y10, Y11); TRANSPOSE(Y4, Y5, Y6, Y7); \
	STORE(0, 0, Y8, Y4); STORE(0, 1, Y9, Y5); STORE(0, 2, Y10, Y6); STORE(0, 3, Y11, Y7)

// func blocksAVX2(dst *[512]byte, common *[16]uint32, own *[4][8]uint32)
TEXT ·blocksAVX2(SB), NOSPLIT, $128-24
	MOVQ dst+0(FP), DI
	MOVQ common+8(FP), SI
	MOVQ own+16(FP), DX
	LOAD_INPUTS
	VMOVDQU Y0, 0(SP)
	VMOVDQU Y1, 32(SP)
	VMOVDQU Y2, 64(SP)
	VMOVDQU Y3, 96(SP)
	MOVQ $10, CX
rounds:
	ROUND(Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15)
	ROUND(Y5, Y6, Y7, Y4, Y10, Y11, Y8, Y9, Y15, Y12, Y13, Y14)
	DECQ CX
	JNZ rounds
	FINISH_LAST
	VMOVDQU 0(SP), Y8
	VMOVDQU 32(SP), Y9
	VMOVDQU 64(SP), Y10
	VMOVDQU 96(SP), Y11
	FINISH_FIRST
	VZEROUPPER
	RET

#define HALF_ROUND_512(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3, m, n) \
	VPADDD b0, Y16, Y16; VPADDD b1, Y17, Y17; VPADDD b2, Y18, Y18; VPADDD b3, Y19, Y19; \
	VPXORD Y16, d0, d0; VPXORD Y17, d1, d1; VPXORD Y18, d2, d2; VPXORD Y19, d3, d3; \
	VPROLD $m, d0, d0; VPROLD $m, d1, d1; VPROLD $m, d2, d2; VPROLD $m, d3, d3; \
	ADD_C(b0, c0, d0); ADD_C(b1, c1, d1); ADD_C(b2, c2, d2); ADD_C(b3, c3, d3); \
	VPROLD $n, b0, b0; VPROLD $n, b1, b1; VPROLD $n, b2, b2; VPROLD $n, b3, b3

#define ROUND_512(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3) \
	HALF_ROUND_512(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3, 16, 12); \
	HALF_ROUND_512(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3, 8, 7)

// func blocksAVX512(dst *[512]byte, common *[16]uint32, own *[4][8]uint32)
TEXT ·blocksAVX512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ common+8(FP), SI
	MOVQ own+16(FP), DX
	LOAD_INPUTS
	VMOVDQA32 Y0, Y16
	VMOVDQA32 Y1, Y17
	VMOVDQA32 Y2, Y18
	VMOVDQA32 Y3, Y19
	MOVQ $10, CX
rounds:
	ROUND_512(Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15)
	ROUND_512(Y5, Y6, Y7, Y4, Y10, Y11, Y8, Y9, Y15, Y12, Y13, Y14)
	DECQ CX
	JNZ rounds
	FINISH_LAST
	VMOVDQA32 Y16, Y8
	VMOVDQA32 Y17, Y9
	VMOVDQA32 Y18, Y10
	VMOVDQA32 Y19, Y11
	FINISH_FIRST
	VZEROUPPER
	RET
