package wire

import (
	"encoding/binary"
	"net"

	"github.com/miekg/dns"
)

// DNS is a message with one question (RFC 1035 §4.1).
type DNS struct {
	ID        uint16
	Response  bool
	Opcode    uint8
	RCode     uint8
	Truncated bool
	Name      string // without the final dot; "" is the root
	Type      uint16
	Answers   int  // A records of the name
	EDNS      bool // adds an OPT record
	Questions int  // as the header counts them, if not 1
}

// Message returns the message as UDP carries it.
func (d DNS) Message() []byte {
	m := new(dns.Msg).SetQuestion(dns.Fqdn(d.Name), d.Type)
	m.Id, m.Opcode, m.Rcode, m.Truncated = d.ID, int(d.Opcode), int(d.RCode), d.Truncated
	m.Response, m.RecursionAvailable, m.Compress = d.Response, d.Response, true
	for range d.Answers {
		m.Answer = append(m.Answer, &dns.A{A: net.IPv4(192, 0, 2, 1), Hdr: dns.RR_Header{
			Name: dns.Fqdn(d.Name), Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60,
		}})
	}
	if d.EDNS {
		m.SetEdns0(1232, false)
	}
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	if d.Questions != 0 {
		binary.BigEndian.PutUint16(b[4:], uint16(d.Questions))
	}
	return b
}

// Prefixed returns the message as TCP carries it, behind its length.
func (d DNS) Prefixed() []byte {
	m := d.Message()
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)
}
