package report

import "fmt"

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
