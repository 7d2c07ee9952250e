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

	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"
)

// QUIC versions whose packets can be sealed.
const (
	Version1 = 0x00000001 // RFC 9000
	Version2 = 0x6b3343cf // RFC 9369
)

const (
	TagLength    = 16
	NumberLength = 4 // packet numbers are always sent in 4 bytes
	SampleLength = 16
)

// cipherSuite is a TLS 1.3 cipher suite as QUIC uses it (RFC 9001 §5.1).
type cipherSuite struct {
	Hash      func() hash.Hash
	keyLength int
	// limit is how many packets one key may seal (RFC 9001 §6.6).
	limit  uint64
	aead   func(key []byte) (cipher.AEAD, error)
	header func(key []byte) (HeaderProtection, error)
}

var CipherSuites = map[uint16]cipherSuite{
	tls.TLS_AES_128_GCM_SHA256:       {sha256.New, 16, 1 << 23, NewGCM, newAESHeader},
	tls.TLS_AES_256_GCM_SHA384:       {sha512.New384, 32, 1 << 23, NewGCM, newAESHeader},
	tls.TLS_CHACHA20_POLY1305_SHA256: {sha256.New, 32, math.MaxInt64, chacha20poly1305.New, newChaChaHeader},
}

func NewGCM(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

// headerProtection masks headers (RFC 9001 §5.4). mask holds the sample when apply is called, and the mask when it returns.
type HeaderProtection interface {
	Apply(mask *[SampleLength]byte)
}

type aesHeader struct{ block cipher.Block }

func newAESHeader(key []byte) (HeaderProtection, error) {
	b, err := aes.NewCipher(key)
	return aesHeader{b}, err
}

func (h aesHeader) Apply(mask *[SampleLength]byte) { h.block.Encrypt(mask[:], mask[:]) }

type chachaHeader struct{ key [chacha20.KeySize]byte }

func newChaChaHeader(key []byte) (HeaderProtection, error) {
	h := new(chachaHeader)
	copy(h.key[:], key)
	return h, nil
}

func (h *chachaHeader) Apply(mask *[SampleLength]byte) {
	c, err := chacha20.NewUnauthenticatedCipher(h.key[:], mask[4:])
	if err != nil {
		panic(err) // the lengths are constant
	}
	c.SetCounter(binary.LittleEndian.Uint32(mask[:]))
	clear(mask[:])
	c.XORKeyStream(mask[:5], mask[:5])
}

// packetKey seals the packets of one key generation.
type Key struct {
	Aead  cipher.AEAD
	Iv    [12]byte
	Limit uint64 // packets that may be sealed
}

// newPacketKey derives a packet protection key from a traffic secret, and for key phase 0 the header protection key, which key updates
// do not change (RFC 9001 §5.1, §6.1).
func NewKey(phase uint64, suite uint16, version uint32, secret []byte) (*Key, HeaderProtection, error) {
	cs, ok := CipherSuites[suite]
	if !ok {
		return nil, nil, fmt.Errorf("cipher suite %#04x is not one of QUIC's", suite)
	}
	prefix, err := labelPrefix(version)
	if err != nil {
		return nil, nil, err
	}
	k := &Key{Limit: cs.limit}
	if err := ExpandLabel(k.Iv[:], cs.Hash, secret, prefix+"iv"); err != nil {
		return nil, nil, err
	}
	key := make([]byte, cs.keyLength)
	defer clear(key)
	if err := ExpandLabel(key, cs.Hash, secret, prefix+"key"); err != nil {
		return nil, nil, err
	}
	if k.Aead, err = cs.aead(key); err != nil || phase > 0 {
		return k, nil, err
	}
	if err := ExpandLabel(key, cs.Hash, secret, prefix+"hp"); err != nil {
		return nil, nil, err
	}
	header, err := cs.header(key)
	return k, header, err
}

// labelPrefix is what the labels of a version start with (RFC 9001 §5.1, RFC 9369 §3.3.2).
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
func ExpandLabel(out []byte, h func() hash.Hash, secret []byte, label string) error {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(len(out)))
	info = append(append(append(info, byte(len(label))), label...), 0)
	b, err := hkdf.Expand(h, secret, string(info), len(out))
	copy(out, b)
	clear(b)
	return err
}

// sealer protects packets in place.
type Sealer struct {
	Keys   [4]*Key // by key generation, of which only the last two are kept
	Header HeaderProtection
	nonce  [12]byte
	mask   [SampleLength]byte
}

// install adds a key generation and forgets the one that no packet can need any more.
func (s *Sealer) Install(generation uint64, k *Key, h HeaderProtection) {
	s.Keys[generation&3] = k
	s.Keys[(generation+2)&3] = nil
	if h != nil {
		s.Header = h
	}
}

// seal protects a packet: header is its length up to and including the packet number; behind the payload there is room for the tag.
// It returns the whole packet.
func (s *Sealer) Seal(packet []byte, header int, number, generation uint64) []byte {
	k := s.Keys[generation&3]
	copy(s.nonce[:], k.Iv[:])
	binary.BigEndian.PutUint64(s.nonce[4:], binary.BigEndian.Uint64(s.nonce[4:])^number)
	packet = k.Aead.Seal(packet[:header], s.nonce[:], packet[header:], packet[:header])
	copy(s.mask[:], packet[header:])
	s.Header.Apply(&s.mask)
	packet[0] ^= s.mask[0] & 0x1f
	for i := range NumberLength {
		packet[header-NumberLength+i] ^= s.mask[1+i]
	}
	return packet
}

// erase forgets all keys.
func (s *Sealer) Erase() {
	if h, ok := s.Header.(*chachaHeader); ok {
		clear(h.key[:])
	}
	for _, k := range s.Keys {
		if k != nil {
			clear(k.Iv[:])
		}
	}
	*s = Sealer{}
}
