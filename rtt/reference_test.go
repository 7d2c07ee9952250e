package rtt

import (
	"net/netip"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"sluice/rtt/pcap"
)

// The reference measures RTTs in a capture in its own way: with all packets at hand, parsed by another library, and
// without tables that can be full. It knows one flow of TCP, with timestamps and without a rate limit, and ICMP echo.

// refSegment is a segment that one end sent.
type refSegment struct {
	at         time.Time
	start, end uint32
	tsval      uint32
	fresh      bool // all of it was sent for the first time
	timed      bool // it is more than a FIN
}

// refEnd is all that one end of a TCP connection sent so far.
type refEnd struct {
	segments  []refSegment // with data, in order
	timed     map[uint32]time.Time
	withdrawn map[uint32]bool
	newest    uint32 // TSval
	high      uint32 // sequence number after the highest byte
	twice     uint32 // as high was at the last retransmission
}

// refSample is an RTT of packets to the replying host.
type refSample struct {
	at     time.Time
	source netip.Addr
	rtt    time.Duration
}

func newer(a, b uint32) bool { return int32(a-b) > 0 }

// referenceTCP measures the TCP connection in a capture.
func referenceTCP(packets []pcap.Packet) (samples []refSample) {
	ends := make(map[netip.Addr]*refEnd)
	for _, p := range packets {
		packet := gopacket.NewPacket(p.Frame, layers.LayerTypeEthernet, gopacket.NoCopy)
		tcp, ok := packet.Layer(layers.LayerTypeTCP).(*layers.TCP)
		if !ok {
			continue
		}
		from, to := refAddresses(packet)
		for _, a := range []netip.Addr{from, to} {
			if ends[a] == nil {
				ends[a] = &refEnd{timed: make(map[uint32]time.Time), withdrawn: make(map[uint32]bool)}
			}
		}
		tsval, tsecr := refTimestamps(tcp)
		if length := refLength(packet, tcp); !tcp.SYN && (length > 0 || tcp.FIN) {
			ends[from].send(p.At, tcp, tsval, length)
		}
		if rtt, ok := ends[to].answered(p.At, tcp, tsecr); ok {
			samples = append(samples, refSample{p.At, from, rtt})
		}
	}
	return samples
}

func refAddresses(packet gopacket.Packet) (from, to netip.Addr) {
	flow := packet.NetworkLayer().NetworkFlow()
	from, _ = netip.AddrFromSlice(flow.Src().Raw())
	to, _ = netip.AddrFromSlice(flow.Dst().Raw())
	return from, to
}

// refLength is the length of the payload, which is captured in part.
func refLength(packet gopacket.Packet, tcp *layers.TCP) uint32 {
	ip := packet.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
	return uint32(ip.Length) - 4*uint32(ip.IHL) - 4*uint32(tcp.DataOffset)
}

func refTimestamps(tcp *layers.TCP) (val, ecr uint32) {
	for _, o := range tcp.Options {
		if o.OptionType == layers.TCPOptionKindTimestamps && len(o.OptionData) == 8 {
			d := o.OptionData
			return uint32(d[0])<<24 | uint32(d[1])<<16 | uint32(d[2])<<8 | uint32(d[3]),
				uint32(d[4])<<24 | uint32(d[5])<<16 | uint32(d[6])<<8 | uint32(d[7])
		}
	}
	return 0, 0
}

// send notes a segment with data or FIN.
func (e *refEnd) send(at time.Time, tcp *layers.TCP, tsval, length uint32) {
	end := tcp.Seq + length
	if tcp.SYN || tcp.FIN {
		end++
	}
	first := len(e.segments) == 0
	s := refSegment{
		at: at, start: tcp.Seq, end: end, tsval: tsval, fresh: first || !newer(e.high, tcp.Seq),
		timed: length > 0 || tcp.SYN,
	}
	if first {
		e.high, e.twice = tcp.Seq, tcp.Seq
	}
	if !s.fresh {
		e.twice = e.high
		if tsval == e.newest {
			delete(e.timed, tsval)
		}
	}
	if newer(end, e.high) {
		e.high = end
	}
	e.segments = append(e.segments, s)
	if length == 0 || (e.newest != 0 && !newer(tsval, e.newest)) {
		return
	}
	if e.newest != 0 {
		e.timed[tsval] = at
	}
	e.newest = tsval
}

// answered returns the RTT that an ACK completes, from the latest packet that it proves to have arrived.
func (e *refEnd) answered(at time.Time, tcp *layers.TCP, tsecr uint32) (time.Duration, bool) {
	since, ok := e.timed[tsecr]
	if !ok || !tcp.ACK {
		return 0, false
	}
	delete(e.timed, tsecr)
	for i := len(e.segments) - 1; i >= 0 && e.segments[i].at.After(since); i-- {
		s := &e.segments[i]
		last := s.end == e.high && tcp.Ack == e.high
		if !s.fresh || !newer(s.end, e.twice) || !newer(tcp.Ack, e.twice) || newer(s.end, tcp.Ack) {
			continue
		}
		if last || e.beginsNewest(i) {
			since = s.at
			break
		}
	}
	return at.Sub(since), true
}

// beginsNewest reports whether the segment is the first one with the newest timestamp.
func (e *refEnd) beginsNewest(i int) bool {
	return e.segments[i].tsval == e.newest && (i == 0 || e.segments[i-1].tsval != e.newest)
}
