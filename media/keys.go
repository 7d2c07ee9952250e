package media

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

	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"
)

// QUIC versions whose packets can be sealed.
const (
	version1 = 0x00000001 // RFC 9000
	version2 = 0x6b3343cf // RFC 9369
)

const (
	tagLength    = 16
	numberLength = 4 // packet numbers are always sent in 4 bytes
	sampleLength = 16
)

// cipherSuite is a TLS 1.3 cipher suite as QUIC uses it (RFC 9001 §5.1).
type cipherSuite struct {
	hash      func() hash.Hash
	keyLength int
	// limit is how many packets one key may seal (RFC 9001 §6.6).
	limit  uint64
	aead   func(key []byte) (cipher.AEAD, error)
	header func(key []byte) (headerProtection, error)
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

// headerProtection masks headers (RFC 9001 §5.4). mask holds the sample when apply is called, and the mask when it returns.
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

// packetKey seals the packets of one key generation.
type packetKey struct {
	aead  cipher.AEAD
	iv    [12]byte
	limit uint64 // packets that may be sealed
}

// newPacketKey derives a packet protection key from a traffic secret, and for key phase 0 the header protection key, which key updates
// do not change (RFC 9001 §5.1, §6.1).
func newPacketKey(phase uint64, suite uint16, version uint32, secret []byte) (*packetKey, headerProtection, error) {
	cs, ok := cipherSuites[suite]
	if !ok {
		return nil, nil, fmt.Errorf("cipher suite %#04x is not one of QUIC's", suite)
	}
	prefix, err := labelPrefix(version)
	if err != nil {
		return nil, nil, err
	}
	k := &packetKey{limit: cs.limit}
	if err := expandLabel(k.iv[:], cs.hash, secret, prefix+"iv"); err != nil {
		return nil, nil, err
	}
	key := make([]byte, cs.keyLength)
	defer clear(key)
	if err := expandLabel(key, cs.hash, secret, prefix+"key"); err != nil {
		return nil, nil, err
	}
	if k.aead, err = cs.aead(key); err != nil || phase > 0 {
		return k, nil, err
	}
	if err := expandLabel(key, cs.hash, secret, prefix+"hp"); err != nil {
		return nil, nil, err
	}
	header, err := cs.header(key)
	return k, header, err
}

// labelPrefix is what the labels of a version start with (RFC 9001 §5.1, RFC 9369 §3.3.2).
func labelPrefix(version uint32) (string, error) {
	switch version {
	case version1:
		return "quic ", nil
	case version2:
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

// sealer protects packets in place.
type sealer struct {
	keys   [4]*packetKey // by key generation, of which only the last two are kept
	header headerProtection
	nonce  [12]byte
	mask   [sampleLength]byte
}

// install adds a key generation and forgets the one that no packet can need any more.
func (s *sealer) install(generation uint64, k *packetKey, h headerProtection) {
	s.keys[generation&3] = k
	s.keys[(generation+2)&3] = nil
	if h != nil {
		s.header = h
	}
}

// seal protects a packet: header is its length up to and including the packet number; behind the payload there is room for the tag.
// It returns the whole packet.
func (s *sealer) seal(packet []byte, header int, number, generation uint64) []byte {
	k := s.keys[generation&3]
	copy(s.nonce[:], k.iv[:])
	binary.BigEndian.PutUint64(s.nonce[4:], binary.BigEndian.Uint64(s.nonce[4:])^number)
	packet = k.aead.Seal(packet[:header], s.nonce[:], packet[header:], packet[:header])
	copy(s.mask[:], packet[header:])
	s.header.apply(&s.mask)
	packet[0] ^= s.mask[0] & 0x1f
	for i := range numberLength {
		packet[header-numberLength+i] ^= s.mask[1+i]
	}
	return packet
}

// erase forgets all keys.
func (s *sealer) erase() {
	if h, ok := s.header.(*chachaHeader); ok {
		clear(h.key[:])
	}
	for _, k := range s.keys {
		if k != nil {
			clear(k.iv[:])
		}
	}
	*s = sealer{}
}
