package keystream

import "golang.org/x/crypto/chacha20"

func init() {
	for with, name := range map[instructions]string{avx2: "AVX2", avx512: "AVX-512"} {
		if with <= best {
			runs[name] = func(
				dst *[RunLen]byte, key *[chacha20.KeySize]byte, nonce *[chacha20.NonceSize]byte, counter uint32,
			) {
				runWith(with, dst, key, nonce, counter)
			}
			masksBy[name] = func(samples [][SampleLen]byte, key *[chacha20.KeySize]byte) {
				masksWith(with, samples, key)
			}
		}
	}
}
