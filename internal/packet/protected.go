//go:build !unprotected

package packet

import "crypto/cipher"

// Version1 is the QUIC version of RFC 9000.
const Version1 = 0x00000001

// Unprotected says that packets of this build have no protection, see unprotected.go.
const Unprotected = false

// Warning is the message of this build's programs when they start: none.
const Warning = ""

// usedAEAD and usedHeaderProtection return the negotiated protection.
func usedAEAD(negotiated cipher.AEAD) cipher.AEAD { return negotiated }

func usedHeaderProtection(negotiated headerProtection) headerProtection { return negotiated }
