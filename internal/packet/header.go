package packet

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
)

// sampleLength is how much of a packet's ciphertext the mask of its header is computed from (RFC 9001 §5.4.2).
const sampleLength = 16

// headerProtection masks headers (RFC 9001 §5.4). mask holds the sample when apply is called, and the mask when it
// returns.
type headerProtection interface {
	apply(mask *[sampleLength]byte)
}

type aesHeader struct{ block cipher.Block }

func newAESHeader(key []byte) (headerProtection, error) {
	b, err := aes.NewCipher(key)
	return aesHeader{b}, err
}

func (h aesHeader) apply(mask *[sampleLength]byte) { h.block.Encrypt(mask[:], mask[:]) }

type chachaHeader struct{ key [chacha20.KeySize]byte }

func newChaChaHeader(key []byte) (headerProtection, error) {
	h := new(chachaHeader)
	copy(h.key[:], key)
	return h, nil
}

func (h *chachaHeader) apply(mask *[sampleLength]byte) {
	c, err := chacha20.NewUnauthenticatedCipher(h.key[:], mask[4:])
	if err != nil {
		panic(err) // the lengths are constant
	}
	c.SetCounter(binary.LittleEndian.Uint32(mask[:]))
	clear(mask[:])
	c.XORKeyStream(mask[:5], mask[:5])
}
