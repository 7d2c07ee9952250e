//go:build !unprotected

package packet

import "crypto/cipher"

// Version1 is the QUIC version of RFC 9000.
const Version1 = 0x00000001

// Unprotected says that packets of this build have no protection, see unprotected.go.
const Unprotected = false

// Warning is what programs of this build say when they start: nothing.
const Warning = ""

// usedAEAD and usedHeaderProtection return what protects packets: what was negotiated.
func usedAEAD(negotiated cipher.AEAD) cipher.AEAD { return negotiated }

func usedHeaderProtection(negotiated headerProtection) headerProtection { return negotiated }
