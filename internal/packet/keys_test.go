package packet

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// Packets of RFC 9001 §A.5 and RFC 9369 §A.5: a PING with packet number 654,360,564.
var chachaVectors = []struct {
	name                      string
	version                   uint32
	iv, nonce, sealed, header string
}{
	{
		"v1", Version1, "e0459b3474bdd0e44a41c144", "e0459b3474bdd0e46d417eb0",
		"655e5cd55c41f69080575d7999c25a5bfb", "4cfe4189",
	},
	{
		"v2", Version2, "a6b5bc6ab7dafce30ffff5dd", "a6b5bc6ab7dafce328ff4a29",
		"0ae7b6b932bc27d786f4bc2bb20f2162ba", "5558b1c6",
	},
}

const chachaSecret = "9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b"

func TestChaChaVectors(t *testing.T) {
	for _, v := range chachaVectors {
		t.Run(v.name, func(t *testing.T) {
			k, err := NewKey(0, tls.TLS_CHACHA20_POLY1305_SHA256, v.version, unhex(t, chachaSecret))
			require.NoError(t, err)
			require.Equal(t, v.iv, hex.EncodeToString(k.iv[:]))

			header := unhex(t, "4200bff4") // with a number in 3 bytes, where seal has 4
			nonce := k.iv
			binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^654360564)
			require.Equal(t, v.nonce, hex.EncodeToString(nonce[:]))
			sealed := k.aead.Seal(nil, nonce[:], []byte{FramePing}, header)
			require.Equal(t, v.sealed, hex.EncodeToString(sealed))

			masks := make([][sampleLength]byte, 1)
			copy(masks[0][:], sealed[1:])
			k.header.apply(masks)
			header[0] ^= masks[0][0] & 0x1f
			for i := range 3 {
				header[1+i] ^= masks[0][1+i]
			}
			require.Equal(t, v.header, hex.EncodeToString(header))
		})
	}
}

// RFC 9001 §A.1 and §A.2: the client's Initial keys, and the mask of its first
func TestAESVectors(t *testing.T) {
	secret := unhex(t, "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea")
	k, err := NewKey(0, tls.TLS_AES_128_GCM_SHA256, Version1, secret)
	require.NoError(t, err)
	require.Equal(t, "fa044b2f42a3fd3b46fb255c", hex.EncodeToString(k.iv[:]))
	masks := [][sampleLength]byte{[sampleLength]byte(unhex(t, "d1b1c98dd7689fb8ec11d242b123dc9b"))}
	k.header.apply(masks)
	require.Equal(t, "437b9aec36", hex.EncodeToString(masks[0][:5]))
	gcm, err := newGCM(unhex(t, "1f369613dd76d5467730efcbe3b1a22d"))
	require.NoError(t, err)
	require.Equal(t, gcm.Seal(nil, k.iv[:], []byte("x"), nil), k.aead.Seal(nil, k.iv[:], []byte("x"), nil))
}

// The key length and hash of AES-256-GCM, against the TLS labels spelled out.
func TestAES256Derivation(t *testing.T) {
	secret := make([]byte, 48)
	k, err := NewKey(0, tls.TLS_AES_256_GCM_SHA384, Version1, secret)
	require.NoError(t, err)
	key := make([]byte, 32)
	require.NoError(t, expandLabel(key, cipherSuites[tls.TLS_AES_256_GCM_SHA384].hash, secret, "quic key"))
	gcm, err := newGCM(key)
	require.NoError(t, err)
	require.Equal(t, gcm.Seal(nil, k.iv[:], []byte("x"), nil), k.aead.Seal(nil, k.iv[:], []byte("x"), nil))
}

func TestUnknownSuiteAndVersion(t *testing.T) {
	secret := make([]byte, 32)
	_, err := NewKey(0, tls.TLS_AES_128_GCM_SHA256, 0xff00001d, secret)
	require.ErrorContains(t, err, "version")
	_, err = NewKey(0, 0x1304, Version1, secret)
	require.ErrorContains(t, err, "suite")
}

// A sealer keeps the keys of two generations, and none after Erase.
func TestSealerForgetsKeys(t *testing.T) {
	var s Sealer
	require.False(t, s.Ready())
	for generation := range uint64(6) {
		k, err := NewKey(generation, tls.TLS_CHACHA20_POLY1305_SHA256, Version1, []byte{byte(generation), 31: 1})
		require.NoError(t, err)
		s.Install(generation, k)
		require.True(t, s.Ready())
		for g, k := range s.keys {
			kept := g == int(generation&3) || generation > 0 && g == int((generation-1)&3)
			require.Equal(t, kept, k != nil, "generation %d, slot %d", generation, g)
		}
	}
	s.Erase()
	require.Equal(t, Sealer{}, s)
}
