package packet

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"hash"
	"math"

	"golang.org/x/crypto/chacha20poly1305"
)

// Version2 is the QUIC version of RFC 9369. Packets of it and of Version1 can be sealed.
const Version2 = 0x6b3343cf

// cipherSuite is a TLS 1.3 cipher suite as QUIC uses it (RFC 9001 §5.1).
type cipherSuite struct {
	hash      func() hash.Hash
	keyLength int
	limit     uint64 // packets that one key may seal (RFC 9001 §6.6)
	aead      func(key []byte) (cipher.AEAD, error)
	header    func(key []byte) (headerProtection, error)
}

var cipherSuites = map[uint16]cipherSuite{
	tls.TLS_AES_128_GCM_SHA256:       {sha256.New, 16, 1 << 23, newGCM, newAESHeader},
	tls.TLS_AES_256_GCM_SHA384:       {sha512.New384, 32, 1 << 23, newGCM, newAESHeader},
	tls.TLS_CHACHA20_POLY1305_SHA256: {sha256.New, 32, math.MaxInt64, chacha20poly1305.New, newChaChaHeader},
}

func newGCM(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

// Material is the keys that a traffic secret yields (RFC 9001 §5.1).
type Material struct{ Key, IV, HeaderProtection []byte }

// Derive derives the keys of a direction from its traffic secret. Key updates do not change the header protection key:
// the first generation's stays in use (RFC 9001 §6.1).
func Derive(suite uint16, version uint32, secret []byte) (Material, error) {
	cs, ok := cipherSuites[suite]
	if !ok {
		return Material{}, fmt.Errorf("cipher suite %#04x is not one of QUIC's", suite)
	}
	prefix, err := labelPrefix(version)
	if err != nil {
		return Material{}, err
	}
	m := Material{make([]byte, cs.keyLength), make([]byte, 12), make([]byte, cs.keyLength)}
	for _, k := range [...]struct {
		label string
		out   []byte
	}{{"key", m.Key}, {"iv", m.IV}, {"hp", m.HeaderProtection}} {
		if err := expandLabel(k.out, cs.hash, secret, prefix+k.label); err != nil {
			m.Erase()
			return Material{}, err
		}
	}
	return m, nil
}

// Erase overwrites the keys.
func (m Material) Erase() {
	clear(m.Key)
	clear(m.IV)
	clear(m.HeaderProtection)
}

// labelPrefix returns the beginning of a version's labels (RFC 9001 §5.1, RFC 9369 §3.3.2).
func labelPrefix(version uint32) (string, error) {
	switch version {
	case Version1:
		return "quic ", nil
	case Version2:
		return "quicv2 ", nil
	}
	return "", fmt.Errorf("QUIC version %#x is not known", version)
}

// expandLabel is HKDF-Expand-Label of TLS 1.3 with an empty context (RFC 8446 §7.1).
func expandLabel(out []byte, h func() hash.Hash, secret []byte, label string) error {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(len(out)))
	info = append(append(append(info, byte(len(label))), label...), 0)
	b, err := hkdf.Expand(h, secret, string(info), len(out))
	copy(out, b)
	clear(b)
	return err
}

// Key seals the packets of one key generation.
type Key struct {
	aead   cipher.AEAD
	iv     [12]byte
	limit  uint64
	header headerProtection // nil after the first generation
}

// NewKey derives the key of a key generation from its traffic secret.
func NewKey(generation uint64, suite uint16, version uint32, secret []byte) (*Key, error) {
	m, err := Derive(suite, version, secret)
	if err != nil {
		return nil, err
	}
	defer m.Erase()
	cs := cipherSuites[suite]
	k := &Key{limit: cs.limit}
	copy(k.iv[:], m.IV)
	aead, err := cs.aead(m.Key)
	if err != nil {
		return nil, err
	}
	if k.aead = usedAEAD(aead); generation > 0 {
		return k, nil
	}
	header, err := cs.header(m.HeaderProtection)
	k.header = usedHeaderProtection(header)
	return k, err
}

// Limit returns how many packets the key may seal (RFC 9001 §6.6).
func (k *Key) Limit() uint64 { return k.limit }
