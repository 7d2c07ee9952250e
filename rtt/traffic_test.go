package rtt

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/netip"
	"os"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"sluice/rtt/pcap"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// TestProviderTraffic replays half a minute of traffic of many flows, synthetic and of 1,000 prefixes. Each TCP
// connection over IPv4 has the RTTs of the reference, and there is an RTT for each echo reply.
func TestProviderTraffic(t *testing.T) {
	t.Parallel()
	requireKernel(t)
	capture := providerTraffic(t)
	connections := make(map[[2]netip.AddrPort][]pcap.Packet)
	replies := 0
	r, err := pcap.NewReader(bytes.NewReader(capture))
	require.NoError(t, err)
	for {
		p, err := r.Read()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		p.Frame = bytes.Clone(p.Frame)
		packet := gopacket.NewPacket(p.Frame, layers.LayerTypeEthernet, gopacket.NoCopy)
		if packet.NetworkLayer().LayerType() != layers.LayerTypeIPv4 {
			continue
		}
		if tcp, ok := packet.Layer(layers.LayerTypeTCP).(*layers.TCP); ok {
			from, to := refAddresses(packet)
			key := [2]netip.AddrPort{
				netip.AddrPortFrom(from, uint16(tcp.SrcPort)), netip.AddrPortFrom(to, uint16(tcp.DstPort)),
			}
			if key[0].Port() == 443 {
				key[0], key[1] = key[1], key[0]
			}
			connections[key] = append(connections[key], p)
		}
		if icmp, ok := packet.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4); ok &&
			icmp.TypeCode.Type() == layers.ICMPv4TypeEchoReply {
			replies++
		}
	}
	var got reporttest.Sink
	replayed := mustReplay(t, MonitorConfig{TCP: true, ICMP: true, Sink: &got}, capture)
	require.Zero(t, replayed.Skipped)

	measured, echoes := make(map[[2]netip.AddrPort][]refSample), 0
	for _, s := range got.Samples {
		if s.Protocol == "TCP" && s.Source.Addr().Is4() {
			key := connection(s.Ends)
			measured[key] = append(measured[key], refSample{s.Time, s.Source.Addr(), s.RTT})
		}
		if s.Protocol == "ICMP" {
			echoes++
		}
	}
	want := make(map[[2]netip.AddrPort][]refSample)
	for key, packets := range connections {
		if samples := referenceTCP(packets); len(samples) > 0 {
			want[key] = samples
		}
	}
	require.Greater(t, len(want), 50, "connections with RTTs")
	require.Equal(t, want, measured)
	require.NotZero(t, replies)
	require.Equal(t, replies, echoes)
}

// providerTraffic returns a capture.
func providerTraffic(t *testing.T) []byte {
	file, err := os.Open("testdata/provider.pcap.gz")
	require.NoError(t, err)
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	require.NoError(t, err)
	capture, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	return capture
}

// connection returns the customer and the server.
func connection(e report.Ends) [2]netip.AddrPort {
	if e.Source.Port() == 443 {
		return [2]netip.AddrPort{e.Destination, e.Source}
	}
	return [2]netip.AddrPort{e.Source, e.Destination}
}
