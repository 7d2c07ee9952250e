// Package reporttest helps tests of several packages: it has a Sink that keeps all it takes, and values of each kind.
package reporttest

import (
	"net/netip"
	"time"

	"sluice/rtt/report"
)

// Sink keeps everything that it takes.
type Sink struct {
	Samples   []report.Sample
	Flows     []report.FlowEvent
	Intervals []report.Interval
	Flushed   int
}

// Sample implements report.Sink.
func (k *Sink) Sample(s *report.Sample) error { k.Samples = append(k.Samples, *s); return nil }

// Flow implements report.Sink.
func (k *Sink) Flow(f *report.FlowEvent) error { k.Flows = append(k.Flows, *f); return nil }

// Interval implements report.Sink.
func (k *Sink) Interval(i *report.Interval) error { k.Intervals = append(k.Intervals, *i); return nil }

// Flush implements report.Sink.
func (k *Sink) Flush() error { k.Flushed++; return nil }

// Time is when the examples were measured.
var Time = time.Date(2026, 7, 1, 16, 0, 46, 147705205, time.UTC)

func ends(protocol string) report.Ends {
	return report.Ends{
		Source:      netip.MustParseAddrPort("10.11.1.1:5201"),
		Destination: netip.MustParseAddrPort("10.11.1.2:59528"),
		Protocol:    protocol,
	}
}

// TCP returns the sample that ePPing's documentation shows: 5.4 ms.
func TCP() *report.Sample {
	return &report.Sample{
		Ends: ends("TCP"), Time: Time, Method: report.MethodTimestamp, RTT: 5425439, MinRTT: 46452,
		Sent: report.Traffic{Packets: 2, Bytes: 7277}, Received: report.Traffic{Packets: 2},
	}
}

// DNS returns a sample with all fields of DNS.
func DNS() *report.Sample {
	return &report.Sample{
		Ends: report.Ends{
			Source:      netip.MustParseAddrPort("[2001:db8::53]:53"),
			Destination: netip.MustParseAddrPort("[2001:db8::1]:40000"),
			Protocol:    "DNS", Interface: "eth1", VLAN: report.VLAN{ID: 7}, VNI: 4096,
		},
		Time: Time, Method: report.MethodQuery, RTT: 12 * time.Millisecond, MinRTT: 12 * time.Millisecond,
		Sent: report.Traffic{Packets: 2, Bytes: 80}, Received: report.Traffic{Packets: 1, Bytes: 120}, OnEgress: true,
		Ambiguous: true, DNS: &report.DNS{Type: 65, RCode: 3, Truncated: true, OverTCP: true},
	}
}

// STUN returns a sample of 9 ms.
func STUN() *report.Sample {
	return &report.Sample{
		Ends: ends("STUN"), Time: Time, Method: report.MethodQuery, RTT: 9 * time.Millisecond,
		MinRTT: 9 * time.Millisecond,
		Sent:   report.Traffic{Packets: 1, Bytes: 20}, Received: report.Traffic{Packets: 1, Bytes: 32},
	}
}

// QUIC returns a sample of 30 ms, in two parts.
func QUIC() *report.Sample {
	return &report.Sample{
		Ends: ends("QUIC"), Time: Time, Method: report.MethodSpin, RTT: 30 * time.Millisecond,
		MinRTT: 30 * time.Millisecond,
		QUIC:   &report.QUIC{Near: 10*time.Millisecond + 500, Far: 20 * time.Millisecond},
	}
}

// OneDirection returns a handshake of 40 ms, of a connection with one direction seen.
func OneDirection() *report.Sample {
	return &report.Sample{
		Ends: ends("TCP"), Time: Time, Method: report.MethodHandshake, RTT: 40 * time.Millisecond,
		MinRTT: 40 * time.Millisecond, Sent: report.Traffic{Packets: 2}, OneDirection: true,
	}
}

// Opening returns the opening of a flow.
func Opening() *report.FlowEvent {
	return &report.FlowEvent{
		Ends: ends("TCP"), Time: Time, Opening: true,
		Reason: report.ReasonSYNACK, Trigger: report.TriggerDestination,
	}
}

// Closing returns the closing of a flow.
func Closing() *report.FlowEvent {
	return &report.FlowEvent{
		Ends: ends("TCP"), Time: Time, Reason: report.ReasonTimeout, Trigger: report.TriggerCleanup,
	}
}

// Interval returns an interval with RTTs of 2, 5, 6 and 13 ms for one prefix, and only traffic for all IPv6 addresses.
func Interval() *report.Interval {
	traffic := func(packets, bytes uint64) report.Traffic { return report.Traffic{Packets: packets, Bytes: bytes} }
	return &report.Interval{
		Aggregation: &report.Aggregation{
			Every: 2 * time.Second, Timeout: 30 * time.Second, BinWidth: 4 * time.Millisecond, IPv4Prefix: 24,
			IPv6Prefix: 48,
		},
		Start: Time.Add(-2 * time.Second),
		End:   Time,
		Prefixes: []report.Prefix{{
			Prefix: netip.MustParsePrefix("10.99.1.0/24"),
			Received: report.PrefixTraffic{
				TCPTimestamps: traffic(3, 300), ECNCapable: 2, ECNMarked: 1,
			},
			Sent: report.PrefixTraffic{
				TCPTimestamps: traffic(4, 70), TCPPlain: traffic(1, 10),
				Retransmissions: 1, ECNCapable: 4, ECNMarked: 1,
				QUIC: report.Loss{All: 128, Passed: 126, Reported: 4},
			},
			RTT: report.Histogram{
				Count: 4, Min: 2 * time.Millisecond, Max: 13 * time.Millisecond, Sum: 26 * time.Millisecond,
				Width: 4 * time.Millisecond, Bins: []uint64{1, 2, 0, 1},
			},
		}, {
			Prefix: netip.MustParsePrefix("::/0"),
			Sent:   report.PrefixTraffic{Other: traffic(1, 60)},
		}},
		Transports: []report.NamedTraffic{
			{Name: "TCP", Traffic: traffic(8, 380)}, {Name: "ICMP", Traffic: traffic(1, 60)},
		},
		ECN: []report.NamedTraffic{
			{Name: "Not-ECT", Traffic: traffic(8, 400)}, {Name: "CE", Traffic: traffic(1, 40)},
		},
		Errors: []report.NamedCount{{Name: "create-flow-state", Count: 2}},
	}
}

// Parts returns an interval with all that tells aggregates apart, and one RTT of 5 ms in each part, but none to peers
// under load, and no query.
func Parts() *report.Interval {
	h := func() report.Histogram {
		return report.Histogram{
			Count: 1, Min: 5 * time.Millisecond, Max: 5 * time.Millisecond, Sum: 5 * time.Millisecond,
			Width: 4 * time.Millisecond, Bins: []uint64{0, 1},
		}
	}
	i := Interval()
	i.Aggregation.By = report.Keys{Pair: true, VLAN: true, Interface: true, Protocol: true}
	i.Aggregation.Parts, i.Aggregation.Load, i.Aggregation.OneDirection = true, 1e6, true
	i.Prefixes = i.Prefixes[:1]
	p := &i.Prefixes[0]
	p.Peer, p.VLAN, p.Interface, p.Protocol = "192.0.2.0/24", report.VLAN{ID: 100, Inner: 7}, "eth1", "TCP"
	p.ByLoad = report.Load{Idle: h(), Loaded: h()}
	p.RTT = h()
	p.RTT.Add(&p.ByLoad.Loaded)
	p.PeerRTT, p.PeerByLoad, p.OneDirection = h(), report.Load{Idle: h()}, h()
	return i
}

// Logarithmic returns an interval with an RTT of 2 µs and two of about 1 ms, in logarithmic bins.
func Logarithmic() *report.Interval {
	bins := make([]uint64, 227)
	bins[0], bins[225], bins[226] = 1, 1, 1
	return &report.Interval{
		Aggregation: &report.Aggregation{
			Every: 2 * time.Second, Timeout: 30 * time.Second, IPv4Prefix: 24, IPv6Prefix: 48,
		},
		Start: Time.Add(-2 * time.Second),
		End:   Time,
		Prefixes: []report.Prefix{{
			Prefix: netip.MustParsePrefix("10.99.1.0/24"),
			RTT: report.Histogram{
				Count: 3, Min: 2 * time.Microsecond, Max: 1020 * time.Microsecond, Sum: 2022 * time.Microsecond,
				Bins: bins,
			},
		}},
	}
}
