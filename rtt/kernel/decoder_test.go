package kernel

import (
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/rtt/bpf"
	"sluice/rtt/output"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

func bytesOf(events ...bpf.MonitorEvent) (raw []byte) {
	for i := range events {
		raw = append(raw, unsafe.Slice((*byte)(unsafe.Pointer(&events[i])), eventSize)...)
	}
	return raw
}

func decoderTo(sink report.Sink) *Decoder {
	return &Decoder{
		Wall:       func(ns uint64) time.Time { return time.Unix(0, int64(ns)) },
		Interfaces: map[uint32]string{3: "eth3"},
		Sink:       sink,
	}
}

var exampleEvent = bpf.MonitorEvent{
	Time:            42,
	Source:          bpf.MonitorAddress{Bytes: netip.MustParseAddr("10.0.0.2").As16()},
	Destination:     bpf.MonitorAddress{Bytes: netip.MustParseAddr("fd00::1").As16()},
	SourcePort:      0x5000, // 80 in network order, on a little-endian machine
	DestinationPort: 0xe803, // 1000
	Interface:       3,
	Vlan:            9,
	InnerVlan:       11,
	Vni:             8,
	Protocol:        6,
	Rtt:             7, MinRtt: 5, SentPackets: 1, SentBytes: 2, ReceivedPackets: 3, ReceivedBytes: 4,
	Retransmissions: 6,
	Egress:          1, FarRtt: 3, QueryType: 28, Rcode: 2, Flags: 7,
}

func TestDecode(t *testing.T) {
	ends := report.Ends{
		Source: netip.MustParseAddrPort("10.0.0.2:80"), Destination: netip.MustParseAddrPort("[fd00::1]:1000"),
		Protocol: "TCP", Interface: "eth3", VLAN: report.VLAN{ID: 9, Inner: 11}, VNI: 8,
	}
	sample := report.Sample{
		Ends: ends, Time: time.Unix(0, 42), RTT: 7, MinRTT: 5, Sent: report.Traffic{Packets: 1, Bytes: 2},
		Received: report.Traffic{Packets: 3, Bytes: 4}, OnEgress: true, Retransmissions: 6,
		Ambiguous: true, OneDirection: true,
	}
	var events []bpf.MonitorEvent
	var want reporttest.Sink
	for method, name := range methods {
		e, s := exampleEvent, sample
		e.Method, s.Method = uint8(method), name
		switch bpf.MonitorMethod(method) {
		case bpf.MonitorMethodMETHOD_DNS:
			s.Protocol, s.DNS = "DNS", &report.DNS{Type: 28, RCode: 2, Truncated: true, OverTCP: true}
		case bpf.MonitorMethodMETHOD_NTP:
			s.Protocol = "NTP"
		case bpf.MonitorMethodMETHOD_STUN:
			s.Protocol = "STUN"
		case bpf.MonitorMethodMETHOD_HANDSHAKE:
			e.Protocol, e.FarRtt = 17, 0
			s.Protocol, s.QUIC = "QUIC", new(report.QUIC)
		case bpf.MonitorMethodMETHOD_SPIN:
			e.Protocol = 17
			s.Protocol, s.QUIC = "QUIC", &report.QUIC{Near: 4, Far: 3}
		}
		events, want.Samples = append(events, e), append(want.Samples, s)
	}
	handshake, s := exampleEvent, sample // of TCP
	handshake.Method, s.Method = uint8(bpf.MonitorMethodMETHOD_HANDSHAKE), report.MethodHandshake
	events, want.Samples = append(events, handshake), append(want.Samples, s)
	for kind, reasons := range map[bpf.MonitorEventType][]report.Reason{
		bpf.MonitorEventTypeEVENT_OPENING: openReasons[:], bpf.MonitorEventTypeEVENT_CLOSING: closeReasons[:],
	} {
		for reason, name := range reasons {
			e := exampleEvent
			e.Type, e.Reason, e.Trigger = uint8(kind), uint8(reason), uint8(reason%3)
			events = append(events, e)
			want.Flows = append(want.Flows, report.FlowEvent{
				Ends: ends, Time: time.Unix(0, 42), Opening: kind == bpf.MonitorEventTypeEVENT_OPENING, Reason: name,
				Trigger: triggers[reason%3],
			})
		}
	}
	var got reporttest.Sink
	require.NoError(t, decoderTo(&got).Decode(bytesOf(events...)))
	require.Equal(t, want, got)
}

func TestDecodeRefuses(t *testing.T) {
	for want, change := range map[string]func(*bpf.MonitorEvent){
		"event of unknown type 3":                       func(e *bpf.MonitorEvent) { e.Type = 3 },
		"RTT by unknown method 8":                       func(e *bpf.MonitorEvent) { e.Method = 8 },
		"flow event with unknown reason 3 or trigger 0": func(e *bpf.MonitorEvent) { e.Type, e.Reason = 1, 3 },
		"flow event with unknown reason 0 or trigger 3": func(e *bpf.MonitorEvent) { e.Type, e.Trigger = 2, 3 },
	} {
		e := exampleEvent
		change(&e)
		require.EqualError(t, decoderTo(&reporttest.Sink{}).Decode(bytesOf(e)), want)
	}
	require.EqualError(t, decoderTo(&reporttest.Sink{}).Decode(make([]byte, 129)),
		"129 bytes of events: not a multiple of 128")
}

// TestRTTsAreNoGarbage decodes and writes an RTT as the kernel reports it, hundreds of thousands of times a second.
func TestRTTsAreNoGarbage(t *testing.T) {
	e := exampleEvent
	e.Vlan, e.InnerVlan, e.Vni = 0, 0, 0
	raw := bytesOf(e)
	for _, format := range []output.Format{output.Standard, output.PPViz} {
		w, err := output.New(format, func() (io.WriteCloser, error) { return nopCloser{io.Discard}, nil })
		require.NoError(t, err)
		d := decoderTo(report.Tee{w})
		require.Zero(t, testing.AllocsPerRun(100, func() { err = errors.Join(err, d.Decode(raw)) }), format)
		require.NoError(t, err)
	}
}

func TestProtocolNames(t *testing.T) {
	for protocol, want := range map[uint8]string{1: "ICMP", 6: "TCP", 17: "QUIC", 58: "ICMPv6", 99: "protocol 99"} {
		require.Equal(t, want, protocolName(protocol))
	}
}

// Whatever bytes arrive, decoding ends with records or with an error, and all formats can write the records.
func FuzzDecode(f *testing.F) {
	f.Add(bytesOf(exampleEvent))
	f.Add(bytesOf(exampleEvent, exampleEvent)[:200])
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testlimit.Start(t, len(raw), 1000)()
		var got reporttest.Sink
		_ = decoderTo(&got).Decode(raw)
		for _, format := range output.Formats() {
			open := func() (io.WriteCloser, error) { return nopCloser{io.Discard}, nil }
			w, err := output.New(output.Format(format), open)
			require.NoError(t, err)
			for i := range got.Samples {
				require.NoError(t, w.Sample(&got.Samples[i]))
			}
			for i := range got.Flows {
				require.NoError(t, w.Flow(&got.Flows[i]))
			}
		}
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
