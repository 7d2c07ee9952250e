package packet_test

import (
	"bytes"
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/packet"
	"sluice/internal/packet/packettest"
)

var suites = []uint16{
	tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256,
}

// A peer opens a sealer's packets, before and after a key update, also in the middle of the packet number space.
func TestSeal(t *testing.T) {
	for _, suite := range suites {
		for _, version := range []uint32{packet.Version1, packet.Version2} {
			t.Run(tls.CipherSuiteName(suite), func(t *testing.T) {
				secrets := [][]byte{{31: 1}, {31: 2}}
				var s packet.Sealer
				opener := packettest.NewOpener(t, suite, version, secrets[0])
				require.EqualValues(t, 1, opener.Update(secrets[1]))
				for generation, secret := range secrets {
					k, err := packet.NewKey(uint64(generation), suite, version, secret)
					require.NoError(t, err)
					s.Install(uint64(generation), k)
				}
				for generation := range uint64(2) {
					first := byte(0x43 | generation<<2)
					p := append(make([]byte, 0, 100), first, 9, 9, 0x12, 0x34, 0x56, 0x78)
					p = s.Seal(append(p, "payload"...), 7, 0x1234_5678, generation)
					s.Protect()
					require.Len(t, p, 7+len("payload")+packet.TagLength)
					require.Equal(t, []byte{9, 9}, p[1:3], "the connection ID is not masked")
					want := packettest.Packet{Number: 0x1234_5678, Phase: byte(generation), Payload: []byte("payload")}
					require.Equal(t, want, opener.Open(p, 2))
				}
			})
		}
	}
}

func TestSealDoesNotAllocate(t *testing.T) {
	for _, suite := range suites {
		k, err := packet.NewKey(0, suite, packet.Version1, make([]byte, 32))
		require.NoError(t, err)
		var s packet.Sealer
		s.Install(0, k)
		p := make([]byte, 100, 100+packet.TagLength)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			s.Seal(p, 10, 1, 0)
			s.Protect()
		}))
	}
}

// TestProtect protects the headers of any number of packets at once, also when the keys are erased before.
func TestProtect(t *testing.T) {
	for _, suite := range suites {
		secret := []byte{31: 1}
		opener := packettest.NewOpener(t, suite, packet.Version1, secret)
		k, err := packet.NewKey(0, suite, packet.Version1, secret)
		require.NoError(t, err)
		var s packet.Sealer
		s.Install(0, k)
		number := uint64(0)
		for n := range 20 {
			var sealed [][]byte
			first := number
			for range n {
				p := make([]byte, 0, 100)
				p = append(p, 0x43, 9, 9, 0, 0, byte(number>>8), byte(number))
				p = append(p, bytes.Repeat([]byte{byte(number)}, 1+n)...)
				sealed = append(sealed, s.Seal(p, 7, number, 0))
				number++
			}
			if n < 19 {
				s.Protect()
			} else {
				s.Erase()
			}
			for i, p := range sealed {
				at := first + uint64(i)
				want := packettest.Packet{Number: at, Payload: bytes.Repeat([]byte{byte(at)}, 1+n)}
				require.Equal(t, want, opener.Open(p, 2), "packet %d of %d", i, n)
			}
		}
	}
}
