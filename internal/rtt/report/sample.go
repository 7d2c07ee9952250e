package report

import (
	"fmt"
	"net/netip"
	"time"
)

// Ends are the two ends of a flow and the protocol between them. An RTT is the time from a packet of Destination to the
// reply of Source, as the observer sees both. The ports of ICMP are the identifier of the echo.
type Ends struct {
	Source, Destination netip.AddrPort
	Protocol            string // TCP, ICMP, ICMPv6, DNS or QUIC
	Interface           string // "" unless several interfaces are watched separately
	VLAN                uint16 // 0: none
}

// AppendPlace appends the interface and the VLAN, as far as they tell the flow apart from others.
func (e *Ends) AppendPlace(b []byte) []byte {
	if e.Interface != "" {
		b = append(append(b, " on "...), e.Interface...)
	}
	if e.VLAN != 0 {
		b = fmt.Appendf(b, " vlan %d", e.VLAN)
	}
	return b
}

// Traffic is a number of packets and of bytes.
type Traffic struct {
	Packets, Bytes uint64
}

// Plus returns the sum.
func (t Traffic) Plus(u Traffic) Traffic { return Traffic{t.Packets + u.Packets, t.Bytes + u.Bytes} }

// Method is how an RTT was measured.
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
	DNS             *DNS    // set if the protocol is DNS
	QUIC            *QUIC   // set if the protocol is QUIC
}

// DNS is the part of a Sample that only DNS has.
type DNS struct {
	Type      uint16 // of the question
	RCode     uint8
	Truncated bool
	Ambiguous bool // the query was sent more than once: the RTT counts from the first
}

// QUIC divides the RTT of a QUIC Sample at the observer. 0 is unknown.
type QUIC struct {
	Near time.Duration // from the observer to Destination and back
	Far  time.Duration // from the observer to Source and back
}
