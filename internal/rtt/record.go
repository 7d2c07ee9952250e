package rtt

import (
	"net/netip"
	"time"
)

// Ends are the two ends of a flow and the protocol between them. RTTs are those of packets from Destination to Source and
// of the replies: Source is the host that replied. Of ICMP the ports are the echo's identifier.
type Ends struct {
	Source, Destination netip.AddrPort
	Protocol            string // TCP, ICMP, ICMPv6, DNS or QUIC
	Interface           string // "" unless several are watched separately
	VLAN                uint16 // 0: none
}

// Traffic is a number of packets and of bytes.
type Traffic struct {
	Packets, Bytes uint64
}

// Method says what an RTT was measured by.
type Method string

// Methods.
const (
	MethodTimestamp Method = "timestamp" // TCP timestamps option
	MethodSequence  Method = "sequence"  // TCP sequence and acknowledgment numbers
	MethodEcho      Method = "echo"      // ICMP
	MethodQuery     Method = "query"     // DNS
	MethodHandshake Method = "handshake" // QUIC
	MethodSpin      Method = "spin"      // QUIC spin bit
)

// Sample is one RTT.
type Sample struct {
	Ends
	Time            time.Time // of the reply
	Method          Method
	RTT, MinRTT     time.Duration
	Sent            Traffic // by Destination since the flow began; bytes of transport payload
	Received        Traffic // from Source
	OnEgress        bool    // the reply left by the interface
	Retransmissions uint32  // TCP: segments that Destination sent again
	DNS             *DNS
	QUIC            *QUIC
}

// DNS is what a Sample of DNS has besides.
type DNS struct {
	Type      uint16 // of the question
	RCode     uint8
	Truncated bool
	Ambiguous bool // the query was sent more than once: the RTT counts from the first
}

// QUIC splits a Sample of QUIC at the observer. 0 is unknown.
type QUIC struct {
	Near time.Duration // from the observer to Destination and back
	Far  time.Duration // from the observer to Source and back
}

// FlowEvent says that one direction of a flow opened or closed.
type FlowEvent struct {
	Ends
	Time    time.Time
	Opening bool // else closing
	Reason  Reason
	Trigger Trigger
}

// Reason says why a flow opened or closed.
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

// Trigger says who opened or closed a flow.
type Trigger string

// Triggers.
const (
	TriggerSource      Trigger = "src"
	TriggerDestination Trigger = "dest"
	TriggerCleanup     Trigger = "garbage collection"
)

// A Sink takes what is measured. Its methods are not called at the same time; an error ends the measurement.
type Sink interface {
	Sample(*Sample) error
	Flow(*FlowEvent) error
	Interval(*Interval) error
	// Flush hands on what was taken. It is called whenever nothing more is there to be taken at once.
	Flush() error
}
