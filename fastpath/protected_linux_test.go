//go:build !unprotected

package fastpath

import (
	"crypto/cipher"
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"

	"sluice/claim"
)

// headerMask is the header protection mask of a sample (RFC 9001 §5.4.4).
func headerMask(k *claim.PacketKeys, sample []byte) (mask [5]byte) {
	c, err := chacha20.NewUnauthenticatedCipher(k.HeaderProtection[:], sample[4:16])
	if err != nil {
		panic(err)
	}
	c.SetCounter(binary.LittleEndian.Uint32(sample))
	c.XORKeyStream(mask[:], mask[:])
	return mask
}

func newAEAD(k *claim.PacketKeys) cipher.AEAD {
	a, err := chacha20poly1305.New(k.Key[:])
	if err != nil {
		panic(err)
	}
	return a
}
