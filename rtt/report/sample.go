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
	Protocol            string // TCP, ICMP, ICMPv6, DNS, NTP, STUN or QUIC
	Interface           string // "" unless several interfaces are watched separately
	VLAN                VLAN
	VNI                 uint32 // of a VXLAN or GENEVE tunnel; 0: none
}

// AppendPlace appends the interface, the VLAN and the VNI, as far as they tell the flow apart from others.
func (e *Ends) AppendPlace(b []byte) []byte {
	b = appendPlace(b, e.Interface, e.VLAN)
	if e.VNI != 0 {
		b = fmt.Appendf(b, " vni %d", e.VNI)
	}
	return b
}

func appendPlace(b []byte, device string, vlan VLAN) []byte {
	if device != "" {
		b = append(append(b, " on "...), device...)
	}
	if vlan != (VLAN{}) {
		b = fmt.Appendf(b, " vlan %v", vlan)
	}
	return b
}

// Traffic is a number of packets and of bytes.
type Traffic struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
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
	MethodQuery     Method = "query"     // DNS, NTP, STUN
	MethodHandshake Method = "handshake" // QUIC; TCP, if one direction is seen
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
	Ambiguous       bool    // the query was sent more than once: the RTT counts from the first
	// OneDirection is set if only packets of Destination were seen: the RTT is of the path between the ends.
	OneDirection bool
	DNS          *DNS  // set if the protocol is DNS
	QUIC         *QUIC // set if the protocol is QUIC
}

// DNS is the part of a Sample that only DNS has.
type DNS struct {
	Type      uint16 // of the question
	RCode     uint8
	Truncated bool
	OverTCP   bool
}

// TypeName returns the name of the type. A type without a name gets one as in RFC 3597 §5.
func (d *DNS) TypeName() string {
	if name, ok := typeNames[d.Type]; ok {
		return name
	}
	return fmt.Sprintf("TYPE%d", d.Type)
}

// RCodeName returns the name of the response code.
func (d *DNS) RCodeName() string {
	if name, ok := rcodeNames[d.RCode]; ok {
		return name
	}
	return fmt.Sprintf("RCODE%d", d.RCode)
}

// QUIC divides the RTT of a QUIC Sample at the observer. 0 is unknown.
type QUIC struct {
	Near time.Duration // from the observer to Destination and back
	Far  time.Duration // from the observer to Source and back
}

// Names from the IANA registry "Domain Name System Parameters" of the types and codes that are in use.
var (
	typeNames = map[uint16]string{
		1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV", 35: "NAPTR",
		41: "OPT", 43: "DS", 46: "RRSIG", 47: "NSEC", 48: "DNSKEY", 50: "NSEC3", 52: "TLSA", 64: "SVCB", 65: "HTTPS",
		251: "IXFR", 252: "AXFR", 255: "ANY", 257: "CAA",
	}
	rcodeNames = map[uint8]string{
		0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED", 6: "YXDOMAIN",
		7: "YXRRSET",
		8: "NXRRSET", 9: "NOTAUTH", 10: "NOTZONE",
	}
)
