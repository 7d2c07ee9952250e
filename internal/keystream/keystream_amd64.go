package keystream

import (
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
	"golang.org/x/sys/cpu"
)

// instructions is a set of vector instructions.
type instructions uint8

const (
	none instructions = iota
	avx2
	avx512
)

var best = bestInstructions()

func bestInstructions() instructions {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL:
		return avx512
	case cpu.X86.HasAVX2:
		return avx2
	}
	return none
}

// Run writes a run of blocks, from number counter on. The number of the last one must not overflow.
func Run(dst *[RunLen]byte, key *[chacha20.KeySize]byte, nonce *[chacha20.NonceSize]byte, counter uint32) {
	runWith(best, dst, key, nonce, counter)
}

func runWith(
	with instructions, dst *[RunLen]byte, key *[chacha20.KeySize]byte, nonce *[chacha20.NonceSize]byte, counter uint32,
) {
	if with == none {
		runLibrary(dst, key, nonce, counter)
		return
	}
	state := [16]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, 12: counter} // RFC 8439 §2.3
	for i := range 8 {
		state[4+i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	for i := range 3 {
		state[13+i] = binary.LittleEndian.Uint32(nonce[4*i:])
	}
	if with == avx512 {
		blocksAVX512(dst, &state)
	} else {
		blocksAVX2(dst, &state)
	}
}

// blocksAVX2 makes eight blocks, the first of which begins with state.
//
//go:noescape
func blocksAVX2(dst *[RunLen]byte, state *[16]uint32)

// blocksAVX512 does the same.
//
//go:noescape
func blocksAVX512(dst *[RunLen]byte, state *[16]uint32)
