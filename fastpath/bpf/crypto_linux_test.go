package bpf_test

import (
	"encoding/hex"
	"math/big"
	mrand "math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf/bpftest"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestChaCha20Block(t *testing.T) { // RFC 8439 §2.3.2
	k := bpftest.NewCrypto(t)
	s := new(bpftest.CryptoScratch)
	for i := range 32 {
		bpftest.Bytes(&s.State)[16+i] = byte(i)
	}
	copy(bpftest.Bytes(&s.State), "expand 32-byte k")
	copy(bpftest.Bytes(&s.State)[48:], unhex(t, "01000000000000090000004a00000000"))
	s = k.Run(t, k.TestHalfBlock, 0, s, nil)
	want := unhex(t, "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e")
	require.Equal(t, want, append(slices.Clone(bpftest.Bytes(&s.R)), bpftest.Bytes(&s.S)...))
}

func TestPoly1305Vectors(t *testing.T) { // RFC 8439 appendix A.3, vectors 7 to 11
	k := bpftest.NewCrypto(t)
	const zeros, ones = "00000000000000000000000000000000", "ffffffffffffffffffffffffffffffff"
	for _, v := range []struct{ r, s, msg, want string }{
		{"02", zeros, ones, "03"},
		{"02", ones, "02", "03"},
		{"01", zeros, ones + "f0ffffffffffffffffffffffffffffff" + "11", "05"},
		{"01", zeros, ones + "fbfefefefefefefefefefefefefefefe" + "01010101010101010101010101010101", "00"},
		{"02", zeros, "fdffffffffffffffffffffffffffffff", "faffffffffffffffffffffffffffffff"},
	} {
		blocks := func(s string) []byte { // filled up with zeros
			b := unhex(t, s)
			return append(b, make([]byte, -len(b)&15)...)
		}
		require.Equal(t, blocks(v.want), k.Poly1305(t, blocks(v.r), blocks(v.s), blocks(v.msg)))
	}
}

// TestPoly1305Limbs gives the program messages and keys of extreme limbs, where lazy carries would overflow first.
func TestPoly1305Limbs(t *testing.T) {
	k := bpftest.NewCrypto(t)
	extreme := func(n int) []byte {
		b := bpftest.RandomBytes(n)
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
	for blocks := 1; blocks <= maxBlocks; blocks++ {
		msg := slices.Repeat(full, blocks)
		require.Equal(t, referencePoly1305(full, full, msg), k.Poly1305(t, full, full, msg))
		for range 5 {
			r, s, msg := extreme(16), extreme(16), extreme(16*blocks)
			require.Equal(t, referencePoly1305(r, s, msg), k.Poly1305(t, r, s, msg), "r %x s %x msg %x", r, s, msg)
		}
	}
}

// maxBlocks is the number of blocks in the whole chunks of the largest payload, and three more.
const maxBlocks = 1500/64*4 + 3

// TestPoly1305Residues gives the program messages whose accumulator ends beside the multiples of 2^130-5, with ordinary
// and extreme keys: there the last reduction could be one too few or too many.
func TestPoly1305Residues(t *testing.T) {
	k := bpftest.NewCrypto(t)
	keys := [][]byte{append([]byte{1}, make([]byte, 15)...), append([]byte{2}, make([]byte, 15)...),
		slices.Repeat([]byte{0xff}, 16), bpftest.RandomBytes(16)}
	for limb := range 4 {
		keys = append(keys, slices.Concat(make([]byte, 4*limb), []byte{0xff, 0xff, 0xff, 0xff},
			make([]byte, 12-4*limb)))
	}
	for _, r := range keys {
		for residue := int64(-6); residue <= 6; residue++ {
			for _, blocks := range []int{3, 5, 6, 7, 8, 64, maxBlocks} {
				msg, s := endingAt(r, residue, blocks), bpftest.RandomBytes(16)
				require.Equal(t, referencePoly1305(r, s, msg), k.Poly1305(t, r, s, msg), "r %x s %x msg %x", r, s, msg)
			}
		}
	}
}

// endingAt returns a message whose accumulator is a residue of 2^130-5 when all blocks are in. If r is 1, not every
// residue has a message of two or four blocks.
func endingAt(r []byte, residue int64, blocks int) []byte {
	p, full := prime(), new(big.Int).Lsh(big.NewInt(1), 128)
	for {
		msg := bpftest.RandomBytes(16 * (blocks - 1))
		last := new(big.Int).ModInverse(multiplier(r), p)
		last.Mul(last, big.NewInt(residue)).Sub(last, accumulate(r, msg)).Sub(last, full).Mod(last, p)
		if last.Cmp(full) < 0 { // else no block has that value
			b := last.FillBytes(make([]byte, 16))
			slices.Reverse(b)
			return append(msg, b...)
		}
	}
}

// referencePoly1305 computes RFC 8439 §2.5 with integers of any size.
func referencePoly1305(r, s, msg []byte) []byte {
	tag := accumulate(r, msg)
	tag.Add(tag, littleEndian(s))
	b := tag.FillBytes(make([]byte, 32))[16:]
	slices.Reverse(b)
	return b
}

// accumulate returns the accumulator behind all blocks.
func accumulate(r, msg []byte) *big.Int {
	acc := new(big.Int)
	for block := range slices.Chunk(msg, 16) {
		acc.Add(acc, littleEndian(append(slices.Clone(block), 1)))
		acc.Mul(acc, multiplier(r)).Mod(acc, prime())
	}
	return acc
}

// multiplier returns r clamped.
func multiplier(r []byte) *big.Int {
	clamped := slices.Clone(r)
	for _, i := range []int{3, 7, 11, 15} {
		clamped[i] &= 15
	}
	for _, i := range []int{4, 8, 12} {
		clamped[i] &= 252
	}
	return littleEndian(clamped)
}

func prime() *big.Int { return new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 130), big.NewInt(5)) }

func littleEndian(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

func TestSealVector(t *testing.T) { // RFC 8439 §2.8.2; packet number 0 leaves the nonce as it is
	k := bpftest.NewCrypto(t)
	var keys bpftest.CryptoPacketKeys
	copy(bpftest.Bytes(&keys.Key), unhex(t, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"))
	copy(bpftest.Bytes(&keys.Iv), unhex(t, "070000004041424344454647"))
	plaintext := []byte("Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, " +
		"sunscreen would be it.")
	aad := unhex(t, "50515253c0c1c2c3c4c5c6c7")
	want := unhex(t, "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"+
		"3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"+
		"92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"+
		"3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691")
	require.Equal(t, want, k.Seal(t, bpftest.CryptoCryptoArgs{Keys: keys}, plaintext, aad))
}

// TestEveryLength seals and opens packets of every payload length, compares them with x/crypto, and expects altered
// packets to be rejected.
func TestEveryLength(t *testing.T) {
	k := bpftest.NewCrypto(t)
	for n := range 1501 {
		keys, pn := bpftest.RandomKeys(), mrand.Uint64()&claim.NumberMask
		plaintext, aad := bpftest.RandomBytes(n), bpftest.RandomBytes(2+mrand.IntN(24))
		want := bpftest.Reference(t, &keys, pn, plaintext, aad)
		a := bpftest.CryptoCryptoArgs{Keys: keys, Pn: pn}
		require.Equal(t, want, k.Seal(t, a, plaintext, aad), "length %d", n)
		opened, verdict := k.Open(t, a, want, aad)
		require.Zero(t, verdict)
		require.Equal(t, plaintext, opened, "length %d", n)

		if n%10 == 0 {
			want[mrand.IntN(len(want))] ^= 1 << mrand.IntN(8)
			_, verdict := k.Open(t, a, want, aad)
			require.EqualValues(t, 1, verdict, "an altered ciphertext of length %d", n)
		}
	}
}

func TestTooLong(t *testing.T) {
	const src = uint32(bpftest.InPayload)
	k := bpftest.NewCrypto(t)
	keys := bpftest.RandomKeys()
	for _, a := range []bpftest.CryptoCryptoArgs{
		{Keys: keys, Src: src, AadLen: 10, Len: 1501},
		{Keys: keys, Src: 4096, AadLen: 10, Len: 100},
	} {
		require.NoError(t, k.Args.Put(uint32(0), a))
		k.Run(t, k.TestSeal, ^uint32(0), new(bpftest.CryptoScratch), &a)
	}
}

func TestHeaderMask(t *testing.T) { // RFC 9001 appendix A.5
	k := bpftest.NewCrypto(t)
	var a bpftest.CryptoCryptoArgs
	copy(bpftest.Bytes(&a.Keys.Hp), unhex(t, "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4"))
	s := new(bpftest.CryptoScratch)
	copy(s.Buf[bpftest.OutPayload:], unhex(t, "5e5cd55c41f69080575d7999c25a5bfb"))
	s = k.Run(t, k.TestMask, 0, s, &a)
	require.Equal(t, unhex(t, "aefefe7d03"), bpftest.Bytes(&s.R)[:5])
}

func BenchmarkCrypto(b *testing.B) {
	k := bpftest.NewCrypto(b)
	keys := bpftest.RandomKeys()
	const n, src = 1200, uint32(bpftest.InPayload)
	aad := make([]byte, 13)
	a := bpftest.CryptoCryptoArgs{Keys: keys, Pn: 77, Src: src, AadLen: uint32(len(aad)), Len: n}
	s := new(bpftest.CryptoScratch)
	copy(s.Buf[bpftest.InPayload:], bpftest.Reference(b, &keys, 77, make([]byte, n), aad))
	b.Run("empty", func(b *testing.B) { k.Benchmark(b, k.TestEmpty, s, &a) })
	b.Run("seal1200", func(b *testing.B) { k.Benchmark(b, k.TestSeal, s, &a) })
	b.Run("chacha20-1200", func(b *testing.B) { k.Benchmark(b, k.TestStream, s, &a) })
	b.Run("encrypt1200", func(b *testing.B) { k.Benchmark(b, k.TestEncrypt, s, &a) })
	b.Run("mask", func(b *testing.B) { k.Benchmark(b, k.TestMask, s, &a) })
}
