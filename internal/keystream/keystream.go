// Package keystream makes key streams of ChaCha20 (RFC 8439 §2.4), eight blocks at once: of one packet, or one block
// for each of several packets, as header protection needs it.
//
// golang.org/x/crypto has vector instructions on amd64 only for ChaCha20 together with Poly1305, which cannot be
// separated. So this package has its own for AVX2 and AVX-512, and leaves everything else to x/crypto.
package keystream

import (
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
)

const (
	// BlockLen is the length of a block in bytes.
	BlockLen = 64
	// RunLen is the length of a run: the blocks that are made together.
	RunLen = 8 * BlockLen
	// SampleLen is the length of a sample of a packet's ciphertext.
	SampleLen = 16
	// MaxMasks is how many header protection masks are made together.
	MaxMasks = RunLen / BlockLen
)

func runLibrary(dst *[RunLen]byte, key *[chacha20.KeySize]byte, nonce *[chacha20.NonceSize]byte, counter uint32) {
	c, err := chacha20.NewUnauthenticatedCipher(key[:], nonce[:])
	if err != nil {
		panic(err) // the lengths are constant
	}
	c.SetCounter(counter)
	clear(dst[:])
	c.XORKeyStream(dst[:], dst[:])
}

func masksLibrary(samples [][SampleLen]byte, key *[chacha20.KeySize]byte) {
	for i := range samples {
		mask := &samples[i]
		c, err := chacha20.NewUnauthenticatedCipher(key[:], mask[4:])
		if err != nil {
			panic(err) // the lengths are constant
		}
		c.SetCounter(binary.LittleEndian.Uint32(mask[:]))
		clear(mask[:])
		c.XORKeyStream(mask[:5], mask[:5])
	}
}
