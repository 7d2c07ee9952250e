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
	in := newInputs(key)
	for i := range in.last[0] {
		in.last[0][i] = counter + uint32(i)
	}
	for j := range 3 {
		n := binary.LittleEndian.Uint32(nonce[4*j:])
		for i := range in.last[1+j] {
			in.last[1+j][i] = n
		}
	}
	in.blocks(with, dst)
}

// Masks replaces samples, at most [MaxMasks], by header protection masks (RFC 9001 §5.4.4), of which the first five
// bytes count.
func Masks(samples [][SampleLen]byte, key *[chacha20.KeySize]byte) { masksWith(best, samples, key) }

func masksWith(with instructions, samples [][SampleLen]byte, key *[chacha20.KeySize]byte) {
	if with == none || len(samples) == 1 {
		masksLibrary(samples, key)
		return
	}
	in := newInputs(key)
	for i := range samples {
		for j := range in.last {
			in.last[j][i] = binary.LittleEndian.Uint32(samples[i][4*j:])
		}
	}
	var out [RunLen]byte
	in.blocks(with, &out)
	for i := range samples {
		copy(samples[i][:], out[i*BlockLen:])
	}
}

// inputs are what eight blocks are made from (RFC 8439 §2.3): words 0 to 11, and of each block words 12 to 15.
type inputs struct {
	common [12]uint32
	last   [4][RunLen / BlockLen]uint32
}

func newInputs(key *[chacha20.KeySize]byte) (in inputs) {
	in.common = [12]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}
	for i := range 8 {
		in.common[4+i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	return in
}

func (in *inputs) blocks(with instructions, dst *[RunLen]byte) {
	if with == avx512 {
		blocksAVX512(dst, in)
	} else {
		blocksAVX2(dst, in)
	}
}

//go:noescape
func blocksAVX2(dst *[RunLen]byte, in *inputs)

//go:noescape
func blocksAVX512(dst *[RunLen]byte, in *inputs)
