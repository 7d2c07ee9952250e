package bpf

// A Counter names one of the kernel's counters.
type Counter struct {
	Label string // as in metrics
	Help  string
}

// Outcomes are the ways a packet can leave the programs, indexed by MonitorOutcome. Every packet takes exactly one.
var Outcomes = [...]Counter{
	{"continue", "never counted"},
	{"tcp", "TCP that is measured"},
	{"icmp", "ICMP echo that is measured"},
	{"dns", "DNS that is measured"},
	{"quic", "QUIC that is measured"},
	{"not-ip", "not IP"},
	{"other-protocol", "a transport that is not measured, or is switched off"},
	{"fragment", "a fragment of an IP packet"},
	{"tunnel", "IP, Ethernet or MPLS in IP, which is not looked into"},
	{"source-routed", "on its way through an IPv6 source route"},
	{"local", "for this host, without --include-local, and of no known flow"},
	{"tcp-syn", "SYN without --include-syn"},
	{"tcp-no-flow", "TCP that may not create a flow: pure ACK, FIN, RST"},
	{"icmp-no-echo", "ICMP other than echo"},
	{"icmp-no-flow", "ICMP echo reply without a request"},
	{"udp-other", "UDP that is neither DNS nor QUIC"},
	{"dns-other", "DNS other than a query of one question or its response"},
	{"dns-no-query", "DNS response without a query"},
	{"quic-no-flow", "QUIC whose handshake was not seen"},
	{"flows-full", "not measured because the flow table is full"},
	{"queries-full", "not measured because the query table is full"},
	{"link-truncated", "ends in the link header"},
	{"vlan-depth", "more than two VLAN tags"},
	{"pppoe-malformed", "malformed PPPoE session header"},
	{"ipv4-malformed", "malformed IPv4 header"},
	{"ipv6-malformed", "malformed IPv6 header"},
	{"ipv6-extensions", "more IPv6 extension headers than are followed"},
	{"tcp-malformed", "malformed TCP header"},
	{"tcp-options-malformed", "malformed TCP option"},
	{"udp-malformed", "malformed UDP header"},
	{"icmp-malformed", "malformed ICMP header"},
	{"dns-malformed", "malformed DNS message"},
	{"quic-malformed", "malformed QUIC header"},
}

// Tallies are what can happen to packets on the way, indexed by MonitorTally.
var Tallies = [...]Counter{
	{"flows-created", "flows that were added to the flow table"},
	{"flows-deleted", "flows that both ends closed"},
	{"flows-expired", "flows that timed out"},
	{"flows-full", "flows that were not added because the flow table is full"},
	{"flows-evicted", "flows without an answer that gave way to newer ones because the flow table is full"},
	{"stamps", "packets that were stamped"},
	{"stamps-evicted", "stamps that newer ones replaced before they were answered"},
	{"stamps-limited", "packets not stamped because of the rate limit"},
	{"stamps-ambiguous", "stamps withdrawn because their packet was sent twice"},
	{"rtts", "RTTs"},
	{"rtts-tightened", "RTTs for which a later packet was a better start than the stamped one"},
	{"rtts-late", "RTTs not reported because they exceed a stamp's lifetime"},
	{"rtts-ambiguous", "RTTs not reported because the reply may answer either of two packets"},
	{"retransmissions", "TCP segments sent again"},
	{"queries-full", "DNS queries that were not added because the query table is full"},
	{"queries-repeated", "DNS queries sent again"},
	{"queries-expired", "DNS queries without a response"},
	{"spin-edges", "QUIC spin bit edges in turn"},
	{"spin-strays", "QUIC spin bit edges out of turn"},
	{"spin-disturbed", "QUIC spin bit samples rejected because a stray edge came between"},
	{"spin-below-base", "QUIC spin bit samples rejected because they are far below the handshake's RTT"},
	{"prefixes-full", "prefixes that were not added because the prefix table is full"},
	{"events", "events handed to user space"},
	{"events-lost", "events dropped because user space was too slow"},
}
