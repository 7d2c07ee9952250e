package bpftest

import (
	"crypto/rand"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20poly1305"
)

// Where the scratch holds the payloads of the packet that arrived and of the copy.
const (
	InPayload  = int(CryptoScratchLayoutIN + CryptoScratchLayoutPAYLOAD_AT)
	OutPayload = int(CryptoScratchLayoutOUT + CryptoScratchLayoutPAYLOAD_AT)
)

// Crypto is the loaded programs of the cryptography.
type Crypto struct{ CryptoObjects }

// NewCrypto loads them.
func NewCrypto(t testing.TB) *Crypto {
	t.Helper()
	k := new(Crypto)
	load(t, LoadCrypto, &k.CryptoObjects)
	return k
}

func (k *Crypto) prepare(t testing.TB, s *CryptoScratch, a *CryptoCryptoArgs) {
	t.Helper()
	putPerCPU(t, k.Scratches, s)
	if a != nil {
		require.NoError(t, k.Args.Put(uint32(0), a))
	}
}

// Run writes the scratch and the arguments, runs p, expects its return value and reads the scratch back.
func (k *Crypto) Run(
	t testing.TB, p *ebpf.Program, want uint32, s *CryptoScratch, a *CryptoCryptoArgs,
) *CryptoScratch {
	t.Helper()
	k.prepare(t, s, a)
	got, cpu := runOnce(t, p, 0)
	require.Equal(t, want, got)
	return getPerCPU[CryptoScratch](t, k.Scratches, cpu)
}

// Poly1305 returns the authenticator of whole blocks, which is the same when packets are sealed and when they are
// opened.
func (k *Crypto) Poly1305(t testing.TB, r, s, msg []byte) []byte {
	t.Helper()
	c := new(CryptoScratch)
	copy(Bytes(&c.R), r)
	copy(Bytes(&c.S), s)
	copy(c.Buf[InPayload:], msg)
	a := &CryptoCryptoArgs{Len: uint32(len(msg) / 16)}
	sealing, opening := k.Run(t, k.TestPolySealing, 0, c, a), k.Run(t, k.TestPolyOpening, 0, c, a)
	require.Equal(t, sealing.Tag, opening.Tag, "r %x s %x msg %x", r, s, msg)
	return Bytes(&sealing.Tag)
}

// Seal returns ciphertext and tag. a holds the keys, the packet number and the connection.
func (k *Crypto) Seal(t testing.TB, a CryptoCryptoArgs, plaintext, aad []byte) []byte {
	t.Helper()
	c := new(CryptoScratch)
	copy(c.Buf[InPayload:], plaintext)
	copy(c.Buf[OutPayload-aadRoom(len(aad)):], aad)
	a.Src, a.AadLen, a.Len = uint32(InPayload), uint32(len(aad)), uint32(len(plaintext))
	c = k.Run(t, k.TestSeal, 0, c, &a)
	return c.Buf[OutPayload:][:len(plaintext)+chacha20poly1305.Overhead]
}

// Open returns the plaintext, if the verdict is 0. a holds the keys, the packet number and the connection.
func (k *Crypto) Open(t testing.TB, a CryptoCryptoArgs, sealed, aad []byte) ([]byte, uint32) {
	t.Helper()
	c := new(CryptoScratch)
	copy(c.Buf[InPayload:], sealed)
	copy(c.Buf[InPayload-aadRoom(len(aad)):], aad)
	n := len(sealed) - chacha20poly1305.Overhead
	a.AadLen, a.Len = uint32(len(aad)), uint32(n)
	k.prepare(t, c, &a)
	verdict, cpu := runOnce(t, k.TestOpen, 0)
	return getPerCPU[CryptoScratch](t, k.Scratches, cpu).Buf[InPayload:][:n], verdict
}

// Benchmark reports the time of p.
func (k *Crypto) Benchmark(b *testing.B, p *ebpf.Program, s *CryptoScratch, a *CryptoCryptoArgs) {
	k.prepare(b, s, a)
	Benchmark(b, p)
}

// aadRoom is how far in front of the payload associated data of n bytes begins.
func aadRoom(n int) int {
	if n > 16 {
		return 32
	}
	return 16
}

// RandomBytes returns n bytes.
func RandomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// RandomKeys returns keys of a packet.
func RandomKeys() CryptoPacketKeys {
	var k CryptoPacketKeys
	rand.Read(Bytes(&k.Key))
	rand.Read(Bytes(&k.Hp))
	rand.Read(Bytes(&k.Iv))
	return k
}

// nonce is the AEAD nonce of a packet number (RFC 9001 §5.3).
func nonce(k *CryptoPacketKeys, pn uint64) []byte {
	n := slices.Clone(Bytes(&k.Iv))
	for i := range 8 {
		n[11-i] ^= byte(pn >> (8 * i))
	}
	return n
}

// Reference returns a packet's payload as x/crypto seals it.
func Reference(t testing.TB, k *CryptoPacketKeys, pn uint64, plaintext, aad []byte) []byte {
	t.Helper()
	a, err := chacha20poly1305.New(Bytes(&k.Key))
	require.NoError(t, err)
	return a.Seal(nil, nonce(k, pn), plaintext, aad)
}
