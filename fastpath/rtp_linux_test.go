package fastpath

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf/bpftest"
	"sluice/internal/thorough"
	"sluice/lab"
)

// TestRTP has the kernel send packets to players, byte by byte as user space would send them.
func TestRTP(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, software := range []bool{false, true} {
			t.Run(fmt.Sprintf("IPv6=%v software checksums=%v", v6, software), func(t *testing.T) {
				if v6 != software {
					thorough.Only(t)
				}
				r := newRTPRig(t, lab.Topology{Subscribers: 3, SoftwareChecksums: software}, v6, Settings{})
				for _, h := range r.lab.Subscribers {
					r.join(h)
				}
				off := r.players[2]
				r.players[0].Forward(true)
				r.players[1].Forward(true)
				octets := 0
				for i := 1; i <= 100; i++ {
					p := rtpPacket(i, bpftest.RandomBytes(1+i*14))
					if i%2 == 0 {
						p[1] |= 0x80 // marker
					}
					if i%10 == 0 && i > 10 {
						p[0] |= 2 // CSRCs
						octets -= 8
					}
					octets += len(p) - 12
					r.publish(p)
					require.Equal(t, r.players[0].copyOf(p), r.receive(r.players[0]), "packet %d", i)
					require.Equal(t, r.players[1].copyOf(p), r.receive(r.players[1]), "packet %d", i)
					served := r.take(p)
					require.True(t, served.Has(r.players[0].RTPPlayer))
					require.True(t, served.Has(r.players[1].RTPPlayer))
					require.False(t, served.Has(off.RTPPlayer))
				}
				packets, bytes := r.players[1].Sent()
				require.EqualValues(t, 100, packets)
				require.EqualValues(t, octets, bytes)
				require.Equal(t, map[string]uint64{"rtp_forwarded": 100, "copy_sent": 200}, r.counts())
			})
		}
	}
}
