package keystream

import (
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
	"golang.org/x/sys/cpu"
)

var hasAVX2 = cpu.X86.HasAVX2

// runAVX2 needs AVX2.
func runAVX2(dst *[RunLen]byte, key *[chacha20.KeySize]byte, nonce *[chacha20.NonceSize]byte, counter uint32) {
	state := [16]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, 12: counter} // RFC 8439 §2.3
	for i := range 8 {
		state[4+i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	for i := range 3 {
		state[13+i] = binary.LittleEndian.Uint32(nonce[4*i:])
	}
	blocks(dst, &state)
}

// blocks makes eight blocks, the first of which begins with state.
//
//go:noescape
func blocks(dst *[RunLen]byte, state *[16]uint32)
