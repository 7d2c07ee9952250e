package report

import "time"

// FlowEvent is the opening or the closing of one direction of a flow.
type FlowEvent struct {
	Ends
	Time    time.Time
	Opening bool // false: closing
	Reason  Reason
	Trigger Trigger
}

// Reason is why a flow opened or closed.
type Reason string

// Reasons.
const (
	ReasonSYN         Reason = "SYN"
	ReasonSYNACK      Reason = "SYN-ACK"
	ReasonFirstPacket Reason = "first observed packet"
	ReasonFIN         Reason = "FIN"
	ReasonRST         Reason = "RST"
	ReasonTimeout     Reason = "flow timeout"
)

// Trigger is the end that opened or closed a flow, or the clean-up.
type Trigger string

// Triggers.
const (
	TriggerSource      Trigger = "src"
	TriggerDestination Trigger = "dest"
	TriggerCleanup     Trigger = "garbage collection"
)

// FlowState is an entry of the flow table: the packets of Destination, which Source answers.
type FlowState struct {
	Ends
	SmoothedRTT, MinRTT time.Duration // 0: none yet
	Sent                Traffic       // by Destination
	Received            Traffic       // from Source
	Retransmissions     uint64        // TCP: segments that Destination sent again
	OneDirection        bool          // no packet of Source was seen: the RTTs are of the whole path
}

// Loss returns the part of Destination's TCP segments that were sent again, or of its ICMP echoes without a reply. For
// other protocols it is not known.
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
