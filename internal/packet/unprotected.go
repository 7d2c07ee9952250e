//go:build unprotected

package packet

import (
	"bytes"
	"crypto/cipher"
	"errors"
)

// A build with the tag unprotected measures, in a lab, the cost of packet protection. Its packets have the layout and
// the lengths of others, but their payload is in the clear, a constant stands for the tag, and headers are not masked.
// The patches of quic-go and the programs of the fast path do the same in such a build.

// Version1 stands for the QUIC version of RFC 9000, and is another one: so a build with the tag and one without refuse
// each other (RFC 9000 §6).
const Version1 = 0x534c4e50

// Unprotected says that packets of this build have no protection.
const Unprotected = true

// Warning is the message of this build's programs when they start.
const Warning = "nothing is encrypted: this build, for labs, has no packet protection"

// unprotectedTag stands for the tag of the AEAD.
const unprotectedTag = "UNPROTECTED-QUIC"

func usedAEAD(negotiated cipher.AEAD) cipher.AEAD { return noAEAD{negotiated} }

func usedHeaderProtection(headerProtection) headerProtection { return noHeaderProtection{} }

// noAEAD does not encrypt.
type noAEAD struct{ cipher.AEAD }

func (noAEAD) Seal(dst, _, plaintext, _ []byte) []byte {
	return append(append(dst, plaintext...), unprotectedTag...)
}

func (noAEAD) Open(dst, _, sealed, _ []byte) ([]byte, error) {
	plaintext, ok := bytes.CutSuffix(sealed, []byte(unprotectedTag))
	if !ok {
		return nil, errors.New("the tag is missing")
	}
	return append(dst, plaintext...), nil
}

type noHeaderProtection struct{}

func (noHeaderProtection) apply(masks [][sampleLength]byte) { clear(masks) }
