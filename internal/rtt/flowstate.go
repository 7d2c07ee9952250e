package rtt

import "time"

// FlowState is what the flow table has of one direction of a flow: of packets from Destination, which Source answers.
type FlowState struct {
	Ends
	SmoothedRTT, MinRTT time.Duration // 0: none yet
	Sent                Traffic       // by Destination
	Received            Traffic       // from Source
	Retransmissions     uint64        // TCP: segments that Destination sent again
	LastPacket          time.Time     // of Destination
}

// Loss is the part of Destination's packets that had to be sent again, or of its echoes without a reply. It is known of
// TCP and ICMP only.
func (f *FlowState) Loss() (loss float64, known bool) {
	if f.Sent.Packets == 0 {
		return 0, false
	}
	lost := f.Retransmissions
	switch f.Protocol {
	case "TCP":
	case "ICMP", "ICMPv6":
		lost = f.Sent.Packets - min(f.Sent.Packets, f.Received.Packets)
	default:
		return 0, false
	}
	return min(1, float64(lost)/float64(f.Sent.Packets)), true
}
