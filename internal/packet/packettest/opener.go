// Package packettest opens the packets that package packet seals, as the peer does. Only tests use it.
package packettest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"

	"sluice/internal/packet"
)

// Opener opens the packets of one direction.
type Opener struct {
	t           testing.TB
	suite       uint16
	version     uint32
	header      []byte
	generations []generation
}

type generation struct {
	aead cipher.AEAD
	iv   []byte
}

// Packet is an opened packet.
type Packet struct {
	Number  uint64
	Phase   byte // the key phase bit
	Payload []byte
}

// NewOpener returns an opener with the first key generation.
func NewOpener(t testing.TB, suite uint16, version uint32, secret []byte) *Opener {
	o := &Opener{t: t, suite: suite, version: version}
	m, err := packet.Derive(suite, version, secret)
	require.NoError(t, err)
	o.header = m.HeaderProtection
	o.Update(secret)
	return o
}

// Update adds the next key generation and returns its number.
func (o *Opener) Update(secret []byte) uint64 {
	m, err := packet.Derive(o.suite, o.version, secret)
	require.NoError(o.t, err)
	o.generations = append(o.generations, generation{o.aead(m.Key), m.IV})
	return uint64(len(o.generations) - 1)
}

func (o *Opener) aead(key []byte) cipher.AEAD {
	if o.suite == tls.TLS_CHACHA20_POLY1305_SHA256 {
		a, err := chacha20poly1305.New(key)
		require.NoError(o.t, err)
		return a
	}
	a, err := cipher.NewGCM(o.block(key))
	require.NoError(o.t, err)
	return a
}

func (o *Opener) block(key []byte) cipher.Block {
	b, err := aes.NewCipher(key)
	require.NoError(o.t, err)
	return b
}

// Open opens a packet with a connection ID of so many bytes, whose packet number fits in 32 bits. It fails the test
// if no key opens the packet.
func (o *Opener) Open(p []byte, connIDLength int) Packet {
	o.t.Helper()
	b := append([]byte(nil), p...)
	header := 1 + connIDLength + packet.NumberLength
	mask := o.mask(b[header : header+16])
	b[0] ^= mask[0] & 0x1f
	field := b[header-packet.NumberLength : header]
	for i := range field {
		field[i] ^= mask[1+i]
	}
	require.Equal(o.t, byte(0x43), b[0]&^0x04, "first byte %#x", b[0])
	q := Packet{Number: uint64(binary.BigEndian.Uint32(field)), Phase: b[0] >> 2 & 1}
	for i := len(o.generations) - 1; i >= 0; i-- {
		if byte(i&1) != q.Phase {
			continue
		}
		g := o.generations[i]
		nonce := append([]byte(nil), g.iv...)
		binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^q.Number)
		var err error
		if q.Payload, err = g.aead.Open(nil, nonce, b[header:], b[:header]); err == nil {
			return q
		}
	}
	o.t.Fatalf("packet %d with key phase %d cannot be opened", q.Number, q.Phase)
	return q
}

// mask returns the mask of a header (RFC 9001 §5.4.3, §5.4.4).
func (o *Opener) mask(sample []byte) (mask [16]byte) {
	if o.suite != tls.TLS_CHACHA20_POLY1305_SHA256 {
		o.block(o.header).Encrypt(mask[:], sample)
		return mask
	}
	c, err := chacha20.NewUnauthenticatedCipher(o.header, sample[4:])
	require.NoError(o.t, err)
	c.SetCounter(binary.LittleEndian.Uint32(sample))
	c.XORKeyStream(mask[:5], mask[:5])
	return mask
}
