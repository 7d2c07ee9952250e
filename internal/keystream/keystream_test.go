package keystream

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// runs are the implementations that this machine has.
var runs = map[string]func(*[RunLen]byte, *[chacha20.KeySize]byte, *[chacha20.NonceSize]byte, uint32){
	"chosen": Run, "x-crypto": runLibrary,
}

var masksBy = map[string]func([][SampleLen]byte, *[chacha20.KeySize]byte){"chosen": Masks, "x-crypto": masksLibrary}

// TestVectors has the vectors of RFC 8439 §2.3.2 and appendix A.1.
func TestVectors(t *testing.T) {
	const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	for _, v := range []struct {
		key, nonce string
		counter    uint32
		want       string
	}{
		{"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "000000090000004a00000000", 1,
			"10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e" +
				"d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"},
		{zeros, zeros[:24], 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7" +
			"da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"},
		{zeros, zeros[:24], 1, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed" +
			"29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"},
		{zeros[:62] + "01", zeros[:24], 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a" +
			"8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"},
		{"00ff" + zeros[:60], zeros[:24], 2, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca" +
			"13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"},
		{zeros, zeros[:22] + "02", 0, "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7" +
			"8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d"},
	} {
		for name, run := range runs {
			var got [RunLen]byte
			key, nonce := unhex(t, v.key), unhex(t, v.nonce)
			run(&got, (*[chacha20.KeySize]byte)(key), (*[chacha20.NonceSize]byte)(nonce), v.counter)
			require.Equal(t, unhex(t, v.want), got[:BlockLen], "%s, key %s, nonce %s", name, v.key, v.nonce)
		}
	}
}

// FuzzRun compares runs with x/crypto, and expects that nothing else is written.
func FuzzRun(f *testing.F) {
	f.Add(make([]byte, 44), uint32(0))
	random := rand.NewChaCha8([32]byte{1})
	for range 50 {
		b := make([]byte, 44)
		random.Read(b)
		f.Add(b, uint32(random.Uint64()))
	}
	f.Fuzz(func(t *testing.T, b []byte, counter uint32) {
		if len(b) < 44 {
			return
		}
		key, nonce := [chacha20.KeySize]byte(b), [chacha20.NonceSize]byte(b[32:])
		counter = min(counter, 1<<32-RunLen/BlockLen-1)
		var want [RunLen]byte
		runLibrary(&want, &key, &nonce, counter)
		for name, run := range runs {
			got := [3][RunLen]byte{{1}, {2}, {3}}
			run(&got[1], &key, &nonce, counter)
			require.Equal(t, [3][RunLen]byte{{1}, want, {3}}, got, name)
		}
	})
}

// TestMasks has the vector of RFC 9001 appendix A.5, at each place, among others that x/crypto confirms.
func TestMasks(t *testing.T) {
	key := [chacha20.KeySize]byte(unhex(t, "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4"))
	vector := [SampleLen]byte(unhex(t, "5e5cd55c41f69080575d7999c25a5bfb"))
	random := rand.NewChaCha8([32]byte{1})
	for name, masks := range masksBy {
		for n := range MaxMasks + 1 {
			for at := range n {
				got := make([][SampleLen]byte, n)
				for i := range got {
					random.Read(got[i][:])
				}
				got[at] = vector
				want := slices.Clone(got)
				masksLibrary(want, &key)
				require.Equal(t, unhex(t, "aefefe7d03"), want[at][:5])
				masks(got, &key)
				for i := range got {
					require.Equal(t, want[i][:5], got[i][:5], "%s, %d of %d", name, i, n)
				}
			}
		}
	}
}
