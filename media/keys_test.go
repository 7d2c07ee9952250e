package media

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"sluice/internal/packet"
	"testing"
	"time"

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
	{"v1", packet.Version1, "e0459b3474bdd0e44a41c144", "e0459b3474bdd0e46d417eb0", "655e5cd55c41f69080575d7999c25a5bfb", "4cfe4189"},
	{"v2", packet.Version2, "a6b5bc6ab7dafce30ffff5dd", "a6b5bc6ab7dafce328ff4a29", "0ae7b6b932bc27d786f4bc2bb20f2162ba", "5558b1c6"},
}

const chachaSecret = "9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b"

func TestChaChaVectors(t *testing.T) {
	for _, v := range chachaVectors {
		t.Run(v.name, func(t *testing.T) {
			k, h, err := packet.NewKey(0, tls.TLS_CHACHA20_POLY1305_SHA256, v.version, unhex(t, chachaSecret))
			require.NoError(t, err)
			require.Equal(t, v.iv, hex.EncodeToString(k.Iv[:]))

			header := unhex(t, "4200bff4") // with a number in 3 bytes, where seal has 4
			nonce := k.Iv
			binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^654360564)
			require.Equal(t, v.nonce, hex.EncodeToString(nonce[:]))
			sealed := k.Aead.Seal(nil, nonce[:], []byte{packet.FramePing}, header)
			require.Equal(t, v.sealed, hex.EncodeToString(sealed))

			var mask [packet.SampleLength]byte
			copy(mask[:], sealed[1:])
			h.Apply(&mask)
			header[0] ^= mask[0] & 0x1f
			for i := range 3 {
				header[1+i] ^= mask[1+i]
			}
			require.Equal(t, v.header, hex.EncodeToString(header))
		})
	}
}

// RFC 9001 §A.1 and §A.2: the client's Initial keys, and the mask of its first packet.
func TestAESVectors(t *testing.T) {
	secret := unhex(t, "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea")
	k, h, err := packet.NewKey(0, tls.TLS_AES_128_GCM_SHA256, packet.Version1, secret)
	require.NoError(t, err)
	require.Equal(t, "fa044b2f42a3fd3b46fb255c", hex.EncodeToString(k.Iv[:]))
	mask := [packet.SampleLength]byte(unhex(t, "d1b1c98dd7689fb8ec11d242b123dc9b"))
	h.Apply(&mask)
	require.Equal(t, "437b9aec36", hex.EncodeToString(mask[:5]))
	gcm, err := packet.NewGCM(unhex(t, "1f369613dd76d5467730efcbe3b1a22d"))
	require.NoError(t, err)
	require.Equal(t, gcm.Seal(nil, k.Iv[:], []byte("x"), nil), k.Aead.Seal(nil, k.Iv[:], []byte("x"), nil))
}

// The key length and hash of AES-256-GCM, against the TLS labels spelled out.
func TestAES256Derivation(t *testing.T) {
	secret := make([]byte, 48)
	k, _, err := packet.NewKey(0, tls.TLS_AES_256_GCM_SHA384, packet.Version1, secret)
	require.NoError(t, err)
	key := make([]byte, 32)
	require.NoError(t, packet.ExpandLabel(key, packet.CipherSuites[tls.TLS_AES_256_GCM_SHA384].Hash, secret, "quic key"))
	gcm, err := packet.NewGCM(key)
	require.NoError(t, err)
	require.Equal(t, gcm.Seal(nil, k.Iv[:], []byte("x"), nil), k.Aead.Seal(nil, k.Iv[:], []byte("x"), nil))
}

func TestSeal(t *testing.T) {
	for suite := range packet.CipherSuites {
		t.Run(tls.CipherSuiteName(suite), func(t *testing.T) {
			k, h, err := packet.NewKey(0, suite, packet.Version1, testSecret)
			require.NoError(t, err)
			var s packet.Sealer
			s.Install(0, k, h)
			p := append(make([]byte, 0, 100), 0x43, 9, 9, 0x12, 0x34, 0x56, 0x78)
			p = s.Seal(append(p, "payload"...), 7, 0x9_1234_5678, 0)
			require.Len(t, p, 7+len("payload")+packet.TagLength)
			require.Equal(t, []byte{9, 9}, p[1:3])

			var mask [packet.SampleLength]byte
			copy(mask[:], p[7:])
			h.Apply(&mask)
			p[0] ^= mask[0] & 0x1f
			for i := range packet.NumberLength {
				p[3+i] ^= mask[1+i]
			}
			require.Equal(t, []byte{0x43, 9, 9, 0x12, 0x34, 0x56, 0x78}, p[:7])
			nonce := k.Iv
			binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^0x9_1234_5678)
			plain, err := k.Aead.Open(nil, nonce[:], p[7:], p[:7])
			require.NoError(t, err)
			require.Equal(t, "payload", string(plain))
		})
	}
}

func TestUnknownSuiteAndVersion(t *testing.T) {
	_, _, err := packet.NewKey(0, tls.TLS_AES_128_GCM_SHA256, 0xff00001d, testSecret)
	require.ErrorContains(t, err, "version")
	_, _, err = packet.NewKey(0, 0x1304, packet.Version1, testSecret)
	require.ErrorContains(t, err, "suite")

	w := &world{t: t, clock: newFakeClock(), sock: new(fakeSocket)}
	w.loop = newLoop(Config{}, w.clock)
	w.shard = newShard(w.loop, w.sock)
	w.loop.shards = []*shard{w.shard}
	w.s = w.loop.NewSender(SenderConfig{})
	w.s.PeerParameters(defaultParams())
	w.s.Keys(0, 0x1304, packet.Version1, nil, testSecret)
	w.path("192.0.2.1:4433", testMTU)
	w.stream(w.subscribe(), newTestLog(0, 10))
	require.Empty(t, w.run())
	require.NotZero(t, w.s.Stats().Reasons[BlockedKey])
}

func TestKeyUpdate(t *testing.T) {
	w := newWorld(t)
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	require.Zero(t, w.run()[0].phase)
	var last int64
	for phase := range 6 {
		secret := []byte{byte(phase), 31: 1}
		k, _, err := packet.NewKey(uint64(phase+1), w.peer.suite, packet.Version1, secret)
		require.NoError(t, err)
		w.peer.keys = append(w.peer.keys, k)
		w.s.Keys(uint64(phase+1), w.peer.suite, packet.Version1, nil, secret)
		log.Append(content(log.End(), 10))
		p := w.run()[0]
		require.Equal(t, byte(phase+1)&1, p.phase)
		require.Greater(t, p.number, last)
		last = p.number
	}
	held := 0
	for _, k := range w.s.seal.Keys {
		if k != nil {
			held++
		}
	}
	require.Equal(t, 2, held, "old keys are forgotten")
	w.s.Closed(nil)
	require.Equal(t, packet.Sealer{}, w.s.seal)
}

// AES-GCM keys may protect 2^23 packets (RFC 9001 §6.6).
func TestConfidentialityLimit(t *testing.T) {
	w := newWorld(t)
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	w.run()
	w.ack(time10)
	require.False(t, w.s.KeyUpdateDue())
	for range 3 { // quic-go's packets count too
		w.s.state.NextPN.Add(1 << 21)
		log.Append(content(log.End(), 10))
		w.run()
		w.ack(time10)
		w.sleep(time.Second) // until the number that was skipped is done with
	}
	require.True(t, w.s.KeyUpdateDue())
	w.s.state.NextPN.Add(1 << 21)
	log.Append(content(log.End(), 10))
	require.Empty(t, w.run(), "the limit is reached")
	k, _, _ := packet.NewKey(1, w.peer.suite, packet.Version1, chachaBytes)
	w.peer.keys = append(w.peer.keys, k)
	w.s.Keys(1, w.peer.suite, packet.Version1, nil, chachaBytes)
	require.Len(t, w.run(), 1)
	require.False(t, w.s.KeyUpdateDue())
}
