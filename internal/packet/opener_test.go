package packet_test

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/packet"
)

// sealing seals packets of any generation.
type sealing struct {
	t       testing.TB
	suite   uint16
	secrets [][]byte
	sealer  packet.Sealer
}

func newSealing(t testing.TB, suite uint16) *sealing {
	s := &sealing{t: t, suite: suite}
	for g := range 2 {
		s.secrets = append(s.secrets, bytes.Repeat([]byte{byte(g + 1)}, 32))
		s.sealer.Install(uint64(g), s.key(g))
	}
	return s
}

func (s *sealing) key(generation int) *packet.Key {
	k, err := packet.NewKey(uint64(generation), s.suite, packet.Version1, s.secrets[generation])
	require.NoError(s.t, err)
	return k
}

// seal seals a packet with a connection ID of two bytes.
func (s *sealing) seal(first byte, number uint32, generation uint64, payload string) []byte {
	p := append(make([]byte, 0, 1500), first|byte(generation&1)<<2, 9, 9)
	p = append(p, byte(number>>24), byte(number>>16), byte(number>>8), byte(number))
	p = s.sealer.Seal(append(p, payload...), 7, uint64(number), generation)
	s.sealer.Protect()
	return p
}

// TestOpener opens a sealer's packets, with each cipher and generation, and nothing else.
func TestOpener(t *testing.T) {
	const payload = "a payload that is long enough"
	for _, suite := range suites {
		t.Run(tls.CipherSuiteName(suite), func(t *testing.T) {
			s := newSealing(t, suite)
			var o packet.Opener
			opens := func(p []byte) bool {
				before := slices.Clone(p)
				number, b, ok := o.Open(p, 3, 0x1234_0000)
				require.Equal(t, before, p, "quic-go may have to open the packet")
				if ok {
					require.EqualValues(t, 0x1234_5678, number)
					require.Equal(t, payload, string(b))
				}
				return ok
			}
			old := s.seal(0x43, 0x1234_5678, 0, payload)
			require.False(t, opens(old), "no key yet")
			o.Install(0, s.key(0))
			require.True(t, opens(old))
			require.True(t, opens(old), "a repetition is authentic")
			updated := s.seal(0x43, 0x1234_5678, 1, payload)
			require.False(t, opens(updated))
			o.Install(1, s.key(1))
			require.True(t, opens(updated))
			require.False(t, opens(old))
			require.False(t, opens(s.seal(0x4b, 0x1234_5678, 1, payload)), "a reserved bit")
			require.False(t, opens(s.seal(0x03, 0x1234_5678, 1, payload)), "no fixed bit")
			for i := range updated {
				forged := slices.Clone(updated)
				forged[i] ^= 0x40
				require.False(t, opens(forged), "byte %d", i)
				require.False(t, opens(updated[:i]), "%d bytes", i)
			}
			require.False(t, opens(s.seal(0x43, 0x1234_5678, 1, string(make([]byte, 256)))))
			o.Erase()
			require.False(t, opens(updated))
		})
	}
}

// The sample of RFC 9001 §A.5, which has a packet number of three bytes.
func TestOpenerVector(t *testing.T) {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		return b
	}
	secret := unhex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b")
	k, err := packet.NewKey(0, tls.TLS_CHACHA20_POLY1305_SHA256, packet.Version1, secret)
	require.NoError(t, err)
	var o packet.Opener
	o.Install(0, k)
	number, payload, ok := o.Open(unhex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"), 1, 654360564)
	require.True(t, ok)
	require.EqualValues(t, 654360564, number)
	require.Equal(t, []byte{1}, payload)
}

func TestOpenerDoesNotAllocate(t *testing.T) {
	for _, suite := range suites {
		s := newSealing(t, suite)
		p := s.seal(0x43, 5, 0, "a payload that is long enough")
		var o packet.Opener
		o.Install(0, s.key(0))
		require.Zero(t, testing.AllocsPerRun(100, func() { o.Open(p, 3, 0) }))
	}
}
