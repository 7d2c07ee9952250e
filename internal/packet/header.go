package packet

import (
	"crypto/aes"
	"crypto/cipher"

	"golang.org/x/crypto/chacha20"

	"sluice/internal/keystream"
)

// sampleLength is how much of a packet's ciphertext the mask of its header is computed from (RFC 9001 §5.4.2).
const sampleLength = keystream.SampleLen

// headerProtection masks headers (RFC 9001 §5.4). masks holds samples of at most maxSealed packets when apply is
// called, and the masks when it returns.
type headerProtection interface {
	apply(masks [][sampleLength]byte)
}

type aesHeader struct{ block cipher.Block }

func newAESHeader(key []byte) (headerProtection, error) {
	b, err := aes.NewCipher(key)
	return aesHeader{b}, err
}

func (h aesHeader) apply(masks [][sampleLength]byte) {
	for i := range masks {
		h.block.Encrypt(masks[i][:], masks[i][:])
	}
}

type chachaHeader struct{ key [chacha20.KeySize]byte }

func newChaChaHeader(key []byte) (headerProtection, error) {
	h := new(chachaHeader)
	copy(h.key[:], key)
	return h, nil
}

func (h *chachaHeader) apply(masks [][sampleLength]byte) { keystream.Masks(masks, &h.key) }
