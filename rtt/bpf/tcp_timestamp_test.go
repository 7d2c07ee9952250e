package bpf

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

var (
	client = netip.MustParseAddrPort("10.0.0.1:1000")
	server = netip.MustParseAddrPort("10.0.0.2:80")
)

// A moment is a packet of a test: when it is seen, and what it is.
type moment struct {
	at     time.Duration
	packet []byte
}

func ms(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// data is a segment of 100 bytes from the client, with timestamps.
func data(at float64, seq, val, ecr uint32) moment {
	return moment{ms(at), wire.TCP{Seq: seq, Ack: 1, Flags: wire.ACK, Timestamps: true, Val: val, Ecr: ecr, Length: 100}.Between(client, server)}
}

// ack is a pure ACK from the server, with timestamps.
func ack(at float64, ack, val, ecr uint32) moment {
	return moment{ms(at), wire.TCP{Seq: 1, Ack: ack, Flags: wire.ACK, Timestamps: true, Val: val, Ecr: ecr}.Between(server, client)}
}

func TestTCPTimestamps(t *testing.T) {
	for name, test := range map[string]struct {
		settings MonitorSettings
		packets  []moment
		want     []string
	}{
		"first reply to the first packet of a timestamp": {
			packets: []moment{
				data(0, 0, 100, 1), // mid-flow: this timestamp may have been sent before
				data(10, 100, 101, 1),
				data(11, 200, 101, 1),
				ack(30, 300, 2, 101),
				ack(31, 300, 2, 101),
			},
			want: []string{
				"0s open 10.0.0.2:80>10.0.0.1:1000: first packet from destination",
				"30ms +19ms timestamp 10.0.0.2:80>10.0.0.1:1000",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.settings.Tcp = 1
			w := watching(t, test.settings)
			for _, p := range test.packets {
				w.show(MonitorProgEgress, p.at, wire.Frame(p.packet))
			}
			require.Equal(t, test.want, w.got())
		})
	}
}
