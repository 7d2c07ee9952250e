package fastpath

import (
	"crypto/rand"
	"encoding/hex"
	"math/big"
	mrand "math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20poly1305"
)

// Places in the scratch, as bpf/common.h defines them.
const (
	in        = 0
	out       = 2048
	payloadAt = 128
)

// asBytes is the memory of v.
func asBytes[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func randomKeys() cryptoPacketKeys {
	var k cryptoPacketKeys
	rand.Read(asBytes(&k.Key))
	rand.Read(asBytes(&k.Hp))
	rand.Read(asBytes(&k.Iv))
	return k
}

// aadAt is where associated data of n bytes begins, relative to its half of the scratch.
func aadAt(n int) int {
	if n > 16 {
		return payloadAt - 32
	}
	return payloadAt - 16
}

// nonce is the AEAD nonce of a packet number (RFC 9001 §5.3).
func nonce(k *cryptoPacketKeys, pn uint64) []byte {
	n := slices.Clone(asBytes(&k.Iv))
	for i := range 8 {
		n[11-i] ^= byte(pn >> (8 * i))
	}
	return n
}

func seal(t testing.TB, k *cryptoPacketKeys, pn uint64, plaintext, aad []byte) []byte {
	t.Helper()
	aead, err := chacha20poly1305.New(asBytes(&k.Key))
	require.NoError(t, err)
	return aead.Seal(nil, nonce(k, pn), plaintext, aad)
}

func TestChaCha20Block(t *testing.T) { // RFC 8439 §2.3.2
	k := newCryptoKernel(t)
	s := new(cryptoScratch)
	for i := range 32 {
		asBytes(&s.State)[16+i] = byte(i)
	}
	copy(asBytes(&s.State), "expand 32-byte k")
	copy(asBytes(&s.State)[48:], unhex(t, "01000000000000090000004a00000000"))
	s = k.run(t, k.TestHalfBlock, 0, s, nil)
	want := unhex(t, "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e")
	require.Equal(t, want, append(slices.Clone(asBytes(&s.R)), asBytes(&s.S)...))
}

func TestPoly1305Vectors(t *testing.T) { // RFC 8439 appendix A.3, vectors 7 to 11
	k := newCryptoKernel(t)
	const zeros, ones = "00000000000000000000000000000000", "ffffffffffffffffffffffffffffffff"
	for _, v := range []struct{ r, s, msg, want string }{
		{"02000000000000000000000000000000", zeros, ones, "03000000000000000000000000000000"},
		{"02000000000000000000000000000000", ones, "02000000000000000000000000000000", "03000000000000000000000000000000"},
		{"01000000000000000000000000000000", zeros, ones + "f0ffffffffffffffffffffffffffffff" + "11000000000000000000000000000000", "05000000000000000000000000000000"},
		{"01000000000000000000000000000000", zeros, ones + "fbfefefefefefefefefefefefefefefe" + "01010101010101010101010101010101", zeros},
		{"02000000000000000000000000000000", zeros, "fdffffffffffffffffffffffffffffff", "faffffffffffffffffffffffffffffff"},
	} {
		require.Equal(t, unhex(t, v.want), k.poly1305(t, unhex(t, v.r), unhex(t, v.s), unhex(t, v.msg)))
	}
}

// TestPoly1305Limbs feeds messages and keys of extreme limbs, where lazy carries would overflow first.
func TestPoly1305Limbs(t *testing.T) {
	k := newCryptoKernel(t)
	extreme := func(n int) []byte {
		b := randomBytes(n)
		for i := range b {
			switch mrand.IntN(4) {
			case 0:
				b[i] = 0xff
			case 1:
				b[i] = 0
			}
		}
		return b
	}
	full := slices.Repeat([]byte{0xff}, 16)
	for blocks := 1; blocks <= 97; blocks++ {
		msg := slices.Repeat(full, blocks)
		require.Equal(t, referencePoly1305(full, full, msg), k.poly1305(t, full, full, msg))
		for range 5 {
			r, s, msg := extreme(16), extreme(16), extreme(16*blocks)
			require.Equal(t, referencePoly1305(r, s, msg), k.poly1305(t, r, s, msg), "r %x s %x msg %x", r, s, msg)
		}
	}
}

// referencePoly1305 computes RFC 8439 §2.5 with integers of any size.
func referencePoly1305(r, s, msg []byte) []byte {
	littleEndian := func(b []byte) *big.Int {
		b = slices.Clone(b)
		slices.Reverse(b)
		return new(big.Int).SetBytes(b)
	}
	clamped := slices.Clone(r)
	for _, i := range []int{3, 7, 11, 15} {
		clamped[i] &= 15
	}
	for _, i := range []int{4, 8, 12} {
		clamped[i] &= 252
	}
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 130), big.NewInt(5))
	acc := new(big.Int)
	for block := range slices.Chunk(msg, 16) {
		acc.Add(acc, littleEndian(append(slices.Clone(block), 1)))
		acc.Mul(acc, littleEndian(clamped)).Mod(acc, p)
	}
	tag := acc.Add(acc, littleEndian(s)).FillBytes(make([]byte, 32))[16:]
	slices.Reverse(tag)
	return tag
}

func TestSealVector(t *testing.T) { // RFC 8439 §2.8.2; packet number 0 leaves the nonce as it is
	k := newCryptoKernel(t)
	var keys cryptoPacketKeys
	copy(asBytes(&keys.Key), unhex(t, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"))
	copy(asBytes(&keys.Iv), unhex(t, "070000004041424344454647"))
	plaintext := []byte("Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.")
	aad := unhex(t, "50515253c0c1c2c3c4c5c6c7")
	want := unhex(t, "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"+
		"3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"+
		"92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"+
		"3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691")
	require.Equal(t, want, k.seal(t, &keys, 0, plaintext, aad))
}

// TestEveryLength seals and opens packets of every payload length against x/crypto, and has altered ones rejected.
func TestEveryLength(t *testing.T) {
	k := newCryptoKernel(t)
	for n := 1; n <= 1500; n++ {
		keys, pn := randomKeys(), mrand.Uint64()>>2
		plaintext, aad := randomBytes(n), randomBytes(2+mrand.IntN(24))
		want := seal(t, &keys, pn, plaintext, aad)
		require.Equal(t, want, k.seal(t, &keys, pn, plaintext, aad), "length %d", n)
		opened, verdict := k.open(t, &keys, pn, want, aad)
		require.Zero(t, verdict)
		require.Equal(t, plaintext, opened, "length %d", n)

		if n%10 == 0 {
			want[mrand.IntN(len(want))] ^= 1 << mrand.IntN(8)
			_, verdict := k.open(t, &keys, pn, want, aad)
			require.EqualValues(t, 1, verdict, "an altered ciphertext of length %d", n)
		}
	}
}

func TestTooLong(t *testing.T) {
	k := newCryptoKernel(t)
	keys := randomKeys()
	for _, a := range []cryptoCryptoArgs{
		{Keys: keys, Src: payloadAt, AadLen: 10, Len: 1501},
		{Keys: keys, Src: payloadAt, AadLen: 33, Len: 100},
		{Keys: keys, Src: 4096, AadLen: 10, Len: 100},
	} {
		require.NoError(t, k.Args.Put(uint32(0), a))
		k.run(t, k.TestSeal, ^uint32(0), new(cryptoScratch), &a)
	}
}

func TestHeaderMask(t *testing.T) { // RFC 9001 appendix A.5
	k := newCryptoKernel(t)
	var a cryptoCryptoArgs
	copy(asBytes(&a.Keys.Hp), unhex(t, "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4"))
	s := new(cryptoScratch)
	copy(s.Buf[out+payloadAt:], unhex(t, "5e5cd55c41f69080575d7999c25a5bfb"))
	s = k.run(t, k.TestMask, 0, s, &a)
	require.Equal(t, unhex(t, "aefefe7d03"), asBytes(&s.R)[:5])
}

func BenchmarkCrypto(b *testing.B) {
	k := newCryptoKernel(b)
	keys := randomKeys()
	const n = 1200
	aad := make([]byte, 13)
	a := cryptoCryptoArgs{Keys: keys, Pn: 77, Src: payloadAt, AadLen: uint32(len(aad)), Len: n}
	s := new(cryptoScratch)
	copy(s.Buf[payloadAt:], seal(b, &keys, 77, make([]byte, n), aad))
	b.Run("empty", func(b *testing.B) { k.benchmark(b, k.TestEmpty, s, &a) })
	b.Run("seal1200", func(b *testing.B) { k.benchmark(b, k.TestSeal, s, &a) })
	b.Run("chacha20-1200", func(b *testing.B) { k.benchmark(b, k.TestXor, s, &a) })
	b.Run("mask", func(b *testing.B) { k.benchmark(b, k.TestMask, s, &a) })
	a.Len = n / 16
	b.Run("poly1305-1200", func(b *testing.B) { k.benchmark(b, k.TestPoly, s, &a) })
}
