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
	common := commonWords(key)
	common[12] = counter
	for i := range 3 {
		common[13+i] = binary.LittleEndian.Uint32(nonce[4*i:])
	}
	blocks(with, dst, &common, &sequence)
}

// sequence makes blocks follow each other.
var sequence = ownWords{{0, 1, 2, 3, 4, 5, 6, 7}}

// Masks replaces samples, at most [MaxMasks], by header protection masks (RFC 9001 §5.4.4). The first five bytes of
// each count.
func Masks(samples [][SampleLen]byte, key *[chacha20.KeySize]byte) { masksWith(best, samples, key) }

func masksWith(with instructions, samples [][SampleLen]byte, key *[chacha20.KeySize]byte) {
	if with == none || len(samples) == 1 {
		masksLibrary(samples, key)
		return
	}
	common, own := commonWords(key), ownWords{}
	for i := range samples {
		for j := range own {
			own[j][i] = binary.LittleEndian.Uint32(samples[i][4*j:])
		}
	}
	var out [RunLen]byte
	blocks(with, &out, &common, &own)
	for i := range samples {
		copy(samples[i][:], out[i*BlockLen:])
	}
}

// ownWords are added to words 12 to 15 of the state that a block starts from (RFC 8439 §2.3), by word and block.
type ownWords [4][RunLen / BlockLen]uint32

// commonWords returns words 0 to 11, which all of the blocks share.
func commonWords(key *[chacha20.KeySize]byte) (words [16]uint32) {
	copy(words[:], []uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574})
	for i := range 8 {
		words[4+i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	return words
}

func blocks(with instructions, dst *[RunLen]byte, common *[16]uint32, own *ownWords) {
	if with == avx512 {
		blocksAVX512(dst, common, own)
	} else {
		blocksAVX2(dst, common, own)
	}
}

//go:noescape
func blocksAVX2(dst *[RunLen]byte, common *[16]uint32, own *ownWords)

//go:noescape
func blocksAVX512(dst *[RunLen]byte, common *[16]uint32, own *ownWords)
