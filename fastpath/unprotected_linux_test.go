//go:build unprotected

package fastpath

import (
	"bytes"
	"crypto/cipher"
	"errors"

	"sluice/claim"
)

func headerMask(*claim.PacketKeys, []byte) (mask [5]byte) { return mask }

func newAEAD(*claim.PacketKeys) cipher.AEAD { return noAEAD{} }

// noAEAD does the same as bpf/transport/unprotected.h.
type noAEAD struct{ cipher.AEAD }

const unprotectedTag = "UNPROTECTED-QUIC"

func (noAEAD) Seal(dst, _, plaintext, _ []byte) []byte {
	return append(append(dst, plaintext...), unprotectedTag...)
}

func (noAEAD) Open(dst, _, ciphertext, _ []byte) ([]byte, error) {
	plaintext, ok := bytes.CutSuffix(ciphertext, []byte(unprotectedTag))
	if !ok {
		return nil, errors.New("another tag")
	}
	return append(dst, plaintext...), nil
}
