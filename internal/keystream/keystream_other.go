//go:build !amd64

package keystream

import "golang.org/x/crypto/chacha20"

// Run writes a run of blocks, from number counter on. The number of the last one must not overflow.
func Run(dst *[RunLen]byte, key *[chacha20.KeySize]byte, nonce *[chacha20.NonceSize]byte, counter uint32) {
	runLibrary(dst, key, nonce, counter)
}

// Masks replaces samples, at most [MaxMasks], by header protection masks (RFC 9001 §5.4.4). The first five bytes of
// each count.
func Masks(samples [][SampleLen]byte, key *[chacha20.KeySize]byte) { masksLibrary(samples, key) }
