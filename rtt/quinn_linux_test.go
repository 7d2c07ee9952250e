package rtt

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/rtt/pcap"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// quinnConnections is so large that one spins in all but one of 100,000 runs: each end of quinn sets the bit at random
// on one connection of eight.
const quinnConnections = 8

// quinn returns the program e2e/interop/quinn-spin, which e2e/interop/run builds.
func quinn(t *testing.T) string {
	dir := os.Getenv("SLUICE_INTEROP")
	if dir == "" {
		t.Skip("needs SLUICE_INTEROP, the directory of programs that e2e/interop/run builds")
	}
	return filepath.Join(dir, "quinn-spin")
}

// quinnConnection makes a client talk to a server for a while. It returns the samples measured at the client, and a
// capture of the same packets.
func quinnConnection(
	t *testing.T, l *lab.Lab, program string, server netip.AddrPort, client string,
) (handshakes, spins []report.Sample, packets []pcap.Packet) {
	samples, packets := capturing(t, l.Publisher, quinnConfig, func() {
		out, err := combined(l.Publisher, exec.Command(program, "client", server.String(), client, "1.5"))
		require.NoError(t, err, out)
	})
	for _, s := range samples {
		if s.Method == report.MethodSpin {
			spins = append(spins, s)
		} else {
			handshakes = append(handshakes, s)
		}
	}
	return handshakes, spins, packets
}

var quinnConfig = MonitorConfig{QUIC: true, RateLimit: -1, IncludeLocal: true}

// combined runs a command inside a host and returns its output.
func combined(h *lab.Host, cmd *exec.Cmd) (out string, err error) {
	err = h.Do(func() error {
		b, err := cmd.CombinedOutput()
		out = string(b)
		return err
	})
	return out, err
}

func TestSpinBitOfQuinn(t *testing.T) {
	program := quinn(t)
	l := labtest.New(t, lab.Topology{Uplink: lab.Symmetric(lab.Conditions{Delay: 10 * time.Millisecond})})
	for i, test := range []struct {
		client, server string
		spins          bool
	}{{"on", "on", true}, {"off", "on", false}, {"on", "off", false}, {"off", "off", false}} {
		t.Run("client "+test.client+", server "+test.server, func(t *testing.T) {
			address := netip.AddrPortFrom(l.Relay.Devices[0].IPv4.Addr(), uint16(4433+i))
			server := exec.Command(program, "server", address.String(), test.server)
			ready, err := server.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, l.Relay.Start(server))
			defer func() {
				require.NoError(t, server.Process.Kill())
				_ = server.Wait()
			}()
			_, err = ready.Read(make([]byte, 20))
			require.NoError(t, err)
			spun := 0
			for range quinnConnections {
				handshakes, spins, packets := quinnConnection(t, l, program, address, test.client)
				require.NotEmpty(t, handshakes)
				if len(spins) == 0 {
					continue
				}
				spun++
				requireSpins(t, address, spins, packets)
				if test.spins {
					break
				}
			}
			if test.spins {
				require.NotZero(t, spun)
			} else {
				require.Zero(t, spun, "a random bit is not classified as spinning")
			}
		})
	}
}

// requireSpins compares spin RTTs with a capture of the same packets: the kernel programs measure the capture once
// more, with the times in it, and each RTT is the time between two edges of the spin bit in one direction (RFC 9000
// §17.4).
func requireSpins(t *testing.T, server netip.AddrPort, live []report.Sample, packets []pcap.Packet) {
	var again reporttest.Sink
	cfg := quinnConfig
	cfg.Sink = &again
	mustReplay(t, cfg, captureFile(t, packets...))
	want := referenceSpins(packets, server)
	replayed := 0
	for _, s := range again.Samples {
		if s.Method == report.MethodSpin {
			replayed++
			require.True(t, want[s.RTT], "%v is not the time between two edges", s)
		}
	}
	require.NotZero(t, replayed)
	var rtts []time.Duration
	for _, s := range live {
		require.Equal(t, s.RTT, s.QUIC.Near+s.QUIC.Far)
		rtts = append(rtts, s.RTT)
	}
	t.Logf("%d spin RTTs live, %v in the median; %d in the capture", len(live), median(rtts), replayed)
}

// referenceSpins returns the times between one edge of the spin bit and the next in the same direction.
func referenceSpins(packets []pcap.Packet, server netip.AddrPort) map[time.Duration]bool {
	rtts := make(map[time.Duration]bool)
	var last [2]struct {
		spin, known bool
		edge        time.Time
	}
	for _, p := range packets {
		packet := gopacket.NewPacket(p.Frame, layers.LayerTypeEthernet, gopacket.NoCopy)
		udp, ok := packet.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok || len(udp.Payload) == 0 || udp.Payload[0]&0x80 != 0 {
			continue // no short header
		}
		way := &last[0]
		if uint16(udp.SrcPort) == server.Port() {
			way = &last[1]
		}
		spin := udp.Payload[0]&0x20 != 0
		if way.known && spin != way.spin {
			rtts[p.At.Sub(way.edge)] = true
			way.edge = p.At
		}
		way.spin, way.known = spin, true
	}
	return rtts
}
