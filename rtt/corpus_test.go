package rtt

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/rtt/internal/wire"
	"sluice/rtt/output"
	"sluice/rtt/pcap"
)

var update = flag.Bool("update", false, "rewrite the captures in testdata and the expected results")

// Ends of the flows in the captures.
var (
	alice, bob           = netip.MustParseAddrPort("192.0.2.1:40000"), netip.MustParseAddrPort("198.51.100.1:443")
	alice6               = netip.MustParseAddrPort("[2001:db8:1::1]:40000")
	bob6                 = netip.MustParseAddrPort("[2001:db8:2::1]:443")
	echoFrom4, echoTo4   = alice.Addr(), bob.Addr()
	echoFrom6, echoTo6   = alice6.Addr(), bob6.Addr()
	time4, time6         = netip.MustParseAddrPort("198.51.100.12:123"), netip.MustParseAddrPort("[2001:db8:2::12]:123")
	resolver4, resolver6 = netip.MustParseAddrPort("198.51.100.53:53"), netip.MustParseAddrPort("[2001:db8:2::53]:53")
)

// A script writes a capture: each call adds a packet, at a number of milliseconds after the start of the capture.
type script struct{ packets []pcap.Packet }

// captureBegin is when the captures start.
var captureBegin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func (s *script) frame(ms float64, frame []byte) {
	at := captureBegin.Add(time.Duration(math.Round(ms * float64(time.Millisecond))))
	s.packets = append(s.packets, pcap.Packet{At: at, Frame: frame, Length: len(frame)})
}

func (s *script) ip(ms float64, packet []byte) { s.frame(ms, wire.Frame(packet)) }

func (s *script) tcp(ms float64, from, to netip.AddrPort, t wire.TCP) {
	t.Flags |= wire.ACK
	s.ip(ms, t.Between(from, to))
}

// data and ack are a segment of alice and a pure ACK of bob with timestamps, plain and plainACK without.
func (s *script) data(ms float64, seq, val uint32) {
	s.tcp(ms, alice, bob, wire.TCP{Seq: seq, Ack: 1, Timestamps: true, Val: val, Ecr: 1, Length: 1000})
}

func (s *script) ack(ms float64, number, ecr uint32) {
	s.tcp(ms, bob, alice, wire.TCP{Seq: 1, Ack: number, Timestamps: true, Val: 1, Ecr: ecr})
}

func (s *script) plain(ms float64, seq uint32) {
	s.tcp(ms, alice, bob, wire.TCP{Seq: seq, Ack: 1, Length: 1000})
}

func (s *script) plainACK(ms float64, number uint32) {
	s.tcp(ms, bob, alice, wire.TCP{Seq: 1, Ack: number})
}

// corpus are the captures, one or two of each protocol: package bpf tests the rules. The samples of each are in a file
// beside it, one JSON object a line.
var corpus = map[string]struct {
	cfg    MonitorConfig
	write  func(*script)
	expect []string // the RTTs in ms, in order
}{
	"tcp-handshake": {
		cfg: MonitorConfig{IncludeSYN: true},
		write: func(s *script) {
			s.ip(0, wire.TCP{
				Seq: 99, Flags: wire.SYN, Options: []byte{2, 4, 5, 180, 4, 2}, Timestamps: true, Val: 10,
			}.Between(alice, bob))
			s.ip(30, wire.TCP{
				Seq: 499, Ack: 100, Flags: wire.SYN | wire.ACK, Options: []byte{2, 4, 5, 180, 4, 2}, Timestamps: true,
				Val: 70, Ecr: 10,
			}.Between(bob, alice))
			s.tcp(32, alice, bob, wire.TCP{Seq: 100, Ack: 500, Timestamps: true, Val: 42, Ecr: 70})
			s.data(33, 100, 43)
			s.ack(64, 1100, 43)
			s.tcp(70, alice, bob, wire.TCP{Seq: 1100, Ack: 500, Flags: wire.FIN, Timestamps: true, Val: 80, Ecr: 70})
			s.tcp(100, bob, alice, wire.TCP{Seq: 500, Ack: 1101, Flags: wire.FIN, Timestamps: true, Val: 140, Ecr: 80})
			s.tcp(101, alice, bob, wire.TCP{Seq: 1101, Ack: 501, Timestamps: true, Val: 111, Ecr: 140})
		},
		expect: []string{"30", "2", "31"},
	},
	"tcp-karn": {
		write: func(s *script) {
			s.plain(0, 0)
			s.plain(10, 1000)
			s.plain(20, 2000)
			s.plain(220, 1000) // again
			s.plainACK(240, 3000)
			s.plain(250, 3000)
			s.plainACK(265, 4000)
		},
		expect: []string{"15"},
	},
	"icmp-echo": {
		cfg: MonitorConfig{ICMP: true},
		write: func(s *script) {
			for i := range uint16(3) {
				at := 1000 * float64(i)
				s.ip(at, wire.Echo{ID: 7, Seq: i + 1, Length: 56}.Between(echoFrom4, echoTo4))
				s.ip(at+1, wire.Echo{ID: 8, Seq: i + 1, Length: 56}.Between(echoFrom6, echoTo6))
				s.ip(at+25, wire.Echo{Reply: true, ID: 7, Seq: i + 1, Length: 56}.Between(echoTo4, echoFrom4))
				s.ip(at+31, wire.Echo{Reply: true, ID: 8, Seq: i + 1, Length: 56}.Between(echoTo6, echoFrom6))
			}
		},
		expect: []string{"25", "30", "25", "30", "25", "30"},
	},
	"dns": {
		cfg: MonitorConfig{DNS: true},
		write: func(s *script) {
			question := wire.DNS{ID: 1, Name: "example.org", Type: 1, EDNS: true}
			answer := question
			answer.Response, answer.Answers = true, 2
			s.ip(0, wire.UDP(alice, resolver4, question.Message()))
			s.ip(8, wire.UDP(resolver4, alice, answer.Message()))
			s.ip(10, wire.UDP(alice6, resolver6, question.Message()))
			s.ip(1010, wire.UDP(alice6, resolver6, question.Message())) // again: ambiguous
			answer.RCode, answer.Answers, answer.Truncated = 2, 0, true
			s.ip(1019, wire.UDP(resolver6, alice6, answer.Message()))
			answer.RCode, answer.Truncated, answer.Answers = 0, false, 1
			s.tcp(2000, alice, resolver4, wire.TCP{Payload: question.Prefixed()})
			s.tcp(2016, resolver4, alice, wire.TCP{Payload: answer.Prefixed()})
		},
		expect: []string{"8", "1009", "16"},
	},
	"ntp": {
		cfg: MonitorConfig{NTP: true},
		write: func(s *script) {
			for i, ends := range [][2]netip.AddrPort{{alice, time4}, {alice6, time6}} {
				at, sent := 1000*float64(i), uint64(0xe0000000_00000000)+uint64(i)
				query := wire.UDP(ends[0], ends[1], wire.NTP{Mode: 3, Transmit: sent}.Message())
				s.ip(at, query)
				if i == 1 {
					s.ip(at+1, query) // again: ambiguous
				}
				s.ip(at+14, wire.UDP(ends[1], ends[0], wire.NTP{Mode: 4, Origin: sent, Transmit: sent + 7}.Message()))
			}
		},
		expect: []string{"14", "14"},
	},
	"stun": {
		cfg: MonitorConfig{STUN: true},
		write: func(s *script) {
			id := [12]byte{1, 2, 3}
			for i, ends := range [][2]netip.AddrPort{{alice, bob}, {alice6, bob6}} {
				at := 1000 * float64(i)
				s.ip(at, wire.UDP(ends[0], ends[1], wire.STUN{Type: wire.BindingRequest, ID: id, Length: 8}.Message()))
				answer := wire.STUN{Type: wire.BindingSuccess, ID: id, Length: 12}
				if i == 1 {
					answer.Type = wire.BindingError
				}
				s.ip(at+17, wire.UDP(ends[1], ends[0], answer.Message()))
			}
		},
		expect: []string{"17", "17"},
	},
	"quic-handshake": {
		cfg: MonitorConfig{QUIC: true},
		write: func(s *script) {
			for i, ends := range [][2]netip.AddrPort{{alice, bob}, {alice6, bob6}} {
				at, version := 100*float64(i), uint32(wire.QUICv1)
				if i == 1 {
					version = wire.QUICv2
				}
				client, server := []byte{1, 1, 1, 1}, []byte{2, 2, 2, 2, 2, 2, 2, 2}
				s.ip(at, wire.UDP(ends[0], ends[1], wire.Long{
					Version: version, Destination: make([]byte, 8), Source: client,
				}.Datagram()))
				s.ip(at+40, wire.UDP(ends[1], ends[0], wire.Long{
					Version: version, Destination: client, Source: server,
				}.Datagram()))
				s.ip(at+43, wire.UDP(ends[0], ends[1], wire.Long{
					Version: version, Type: wire.Handshake, Destination: server, Source: client, Length: 90,
				}.Datagram()))
			}
		},
		expect: []string{"40", "3", "40", "3"},
	},
	"quic-spin": {
		cfg: MonitorConfig{QUIC: true, RateLimit: 200 * time.Millisecond},
		write: func(s *script) {
			s.spin(wire.SpinPath{})
		},
		expect: append([]string{
			"50", "10",
		}, slices.Repeat([]string{"63"}, 12)...), // the client sends every 7 ms: an edge waits for that
	},
	"encapsulations": {
		cfg: MonitorConfig{ICMP: true},
		write: func(s *script) {
			request := wire.Echo{ID: 7, Seq: 1}.Between(echoFrom4, echoTo4)
			reply := wire.Echo{Reply: true, ID: 7, Seq: 1}.Between(echoTo4, echoFrom4)
			s.frame(0, wire.Frame(request, 5))
			s.frame(1, wire.Frame(request, 6, 5))
			s.frame(2, wire.PPPoE(9, request)) // without a VLAN: a third flow
			s.frame(10, wire.Frame(reply, 5))
			s.frame(12, wire.Frame(reply, 6, 5))
			s.frame(14, wire.PPPoE(9, reply))
			// Packets that must not be misread: a fragment, a tunnel, and three VLAN tags.
			s.ip(20, wire.IP{
				From: echoFrom4, To: echoTo4, Protocol: wire.ProtocolICMP, Fragment: 0x2000,
			}.Packet(wire.Echo{Seq: 2}.Between(echoFrom4, echoTo4)[20:]))
			s.ip(21, wire.IP{From: echoFrom4, To: echoTo4, Protocol: 4}.Packet(request))
			s.frame(22, wire.Frame(request, 1, 2, 3))
		},
		expect: []string{"10", "11", "12"},
	},
	"one-direction": {
		cfg: MonitorConfig{TCP: true, QUIC: true, IncludeSYN: true},
		write: func(s *script) {
			s.ip(0, wire.TCP{Seq: 99, Flags: wire.SYN}.Between(alice, bob))
			s.tcp(42, alice, bob, wire.TCP{Seq: 100, Ack: 1})
			s.tcp(43, alice, bob, wire.TCP{Seq: 100, Ack: 1, Length: 100})
			client := wire.Long{Destination: make([]byte, 8), Source: []byte{1, 1, 1, 1}}
			s.ip(100, wire.UDP(alice6, bob6, client.Datagram()))
			client.Destination, client.Type, client.Length = []byte{2, 2, 2, 2}, wire.Handshake, 90
			s.ip(153, wire.UDP(alice6, bob6, client.Datagram()))
		},
		expect: []string{"42", "53"},
	},
	"tunnels": {
		cfg: MonitorConfig{ICMP: true, Tunnels: true},
		write: func(s *script) {
			there, back := time4.Addr(), resolver4.Addr()
			udp := func(port uint16, payload []byte) []byte {
				return wire.UDP(netip.AddrPortFrom(there, 50000), netip.AddrPortFrom(back, port), payload)
			}
			ip := func(protocol uint8, packet []byte) []byte {
				return wire.IP{From: there, To: back, Protocol: protocol}.Packet(packet)
			}
			for i, tunnel := range []func(packet []byte) []byte{
				func(p []byte) []byte { return wire.Frame(ip(41, p)) },
				func(p []byte) []byte {
					return wire.Frame(wire.GRE{Flags: 0x2000, Type: wire.TypeIPv6}.Between(there, back, p))
				},
				func(p []byte) []byte { return wire.Ethernet(wire.TypeMPLS, wire.MPLS(p, 16, 17)) },
				func(p []byte) []byte { return wire.Frame(udp(wire.VXLANPort, wire.VXLAN(42, wire.Frame(p)))) },
				func(p []byte) []byte {
					return wire.Frame(udp(wire.GENEVEPort, wire.GENEVE(43, wire.TypeEthernet, 1, wire.Frame(p))))
				},
				func(p []byte) []byte { return wire.Frame(udp(wire.GTPUPort, wire.GTPU(p, 1)), 5) },
			} {
				seq := uint16(i)
				reply := wire.Echo{ID: 7, Seq: seq, Reply: true}.Between(echoTo6, echoFrom6)
				s.frame(float64(100*i), tunnel(wire.Echo{ID: 7, Seq: seq}.Between(echoFrom6, echoTo6)))
				s.frame(float64(100*i+10+i), tunnel(reply))
			}
		},
		expect: []string{"10", "11", "12", "13", "14", "15"},
	},
}

// spin writes a connection of two seconds with RTTs of 10 ms and 50 ms between the observer and the ends.
func (s *script) spin(path wire.SpinPath) {
	path.ToClient, path.ToServer = 5*time.Millisecond, 25*time.Millisecond
	path.EveryClient, path.EveryServer, path.Duration = 7*time.Millisecond, 3*time.Millisecond, 2*time.Second
	client, server := []byte{1, 1, 1, 1}, []byte{2, 2, 2, 2, 2, 2, 2, 2}
	s.ip(0, wire.UDP(alice, bob, wire.Long{Destination: make([]byte, 8), Source: client}.Datagram()))
	s.ip(50, wire.UDP(bob, alice, wire.Long{Destination: client, Source: server}.Datagram()))
	s.ip(60, wire.UDP(alice, bob, wire.Long{
		Type: wire.Handshake, Destination: server, Source: client, Length: 90,
	}.Datagram()))
	for i, p := range path.Packets() {
		at := 70 + p.At.Seconds()*1000
		if p.FromClient {
			s.ip(at, wire.UDP(alice, bob, wire.Short(p.Value, server, byte(11*i), 40)))
		} else {
			s.ip(at, wire.UDP(bob, alice, wire.Short(p.Value, client, byte(7*i), 40)))
		}
	}
}

// TestCorpus replays each capture and compares the samples and flow events with the file beside it.
func TestCorpus(t *testing.T) {
	requireKernel(t)
	for name, c := range corpus {
		t.Run(name, func(t *testing.T) {
			var s script
			c.write(&s)
			file := filepath.Join("testdata", name)
			capture := captureFile(t, s.packets...)
			measured := replayed(t, c.cfg, capture)
			if *update {
				require.NoError(t, os.WriteFile(file+".pcap", capture, 0o644))
				require.NoError(t, os.WriteFile(file+".jsonl", measured, 0o644))
			}
			want, err := os.ReadFile(file + ".pcap")
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, capture), "%s.pcap is not what the test writes; run with -update", file)
			want, err = os.ReadFile(file + ".jsonl")
			require.NoError(t, err)
			require.Equal(t, string(want), string(measured))
			require.Equal(t, c.expect, rttsIn(t, measured))
		})
	}
}

// replayed returns the JSON lines of a capture.
func replayed(t testing.TB, cfg MonitorConfig, capture []byte) []byte {
	var out bytes.Buffer
	w, err := output.New(output.JSONL, func() (io.WriteCloser, error) { return nopCloser{&out}, nil })
	require.NoError(t, err)
	cfg.Sink = w
	replay := mustReplay(t, cfg, capture)
	require.Zero(t, replay.Skipped)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func mustReplay(t testing.TB, cfg MonitorConfig, capture []byte) Replayed {
	t.Helper()
	if cfg.RateLimit == 0 {
		cfg.RateLimit = -1
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	r, err := Replay(t.Context(), cfg, bytes.NewReader(capture))
	require.NoError(t, err)
	return r
}

// captureFile writes packets as a pcap file with nanoseconds.
func captureFile(t testing.TB, packets ...pcap.Packet) []byte {
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	require.NoError(t, w.WriteFileHeader(65535, layers.LinkTypeEthernet))
	for _, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: p.At, CaptureLength: len(p.Frame), Length: p.Length}
		require.NoError(t, w.WritePacket(info, p.Frame))
	}
	return b.Bytes()
}

// rttsOf returns the RTTs in a capture, in ms.
func rttsOf(t testing.TB, cfg MonitorConfig, capture []byte) []string {
	t.Helper()
	return rttsIn(t, replayed(t, cfg, capture))
}

// rttsIn returns the RTTs in JSON lines, in ms.
func rttsIn(t testing.TB, measured []byte) (list []string) {
	t.Helper()
	for lines := json.NewDecoder(bytes.NewReader(measured)); ; {
		var line struct{ RTT *float64 }
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		if line.RTT != nil { // not a flow that opens or closes
			list = append(list, strconv.FormatFloat(*line.RTT/1e6, 'f', -1, 64))
		}
	}
}

// Every capture in testdata belongs to a test.
func TestCorpusIsComplete(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pcap")
	require.NoError(t, err)
	var names, want []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".pcap"))
	}
	for name := range corpus {
		want = append(want, name)
	}
	slices.Sort(want)
	slices.Sort(names)
	require.Equal(t, want, names)
}

// requireKernel skips a test that needs to load BPF programs and may not.
var requireKernel = thorough.Root

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
