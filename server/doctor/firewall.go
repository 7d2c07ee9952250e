package doctor

import (
	"context"
	"fmt"
	"strings"
)

// packet is the first packet of a client.
type packet struct {
	family   string // IPv4 or IPv6
	protocol string // udp or tcp
	port     uint16
	device   string
}

// verdict is what a firewall does with a packet.
type verdict struct {
	drops  bool
	by     string // the chain that drops it
	unsure bool   // rules that were not understood may accept it before
}

func checkFirewall(_ context.Context, m *Machine, r *report) (string, error) {
	legacy, _ := m.word("/proc/net/ip_tables_names")
	legacy6, _ := m.word("/proc/net/ip6_tables_names")
	if strings.Contains(legacy+legacy6, "filter") {
		r.add(Unknown, "", "iptables-legacy -S; ip6tables-legacy -S", "rules of legacy iptables are not read")
	}
	device := ""
	if len(m.Devices) > 0 {
		device = m.Devices[0]
	}
	for _, port := range m.Ports {
		for _, family := range []string{"IPv4", "IPv6"} {
			a := port.Addr()
			if port.Port() == 0 || family == "IPv6" && a.Is4() || family == "IPv4" && a.Is6() && !a.IsUnspecified() {
				continue // the relay has no such address
			}
			p := packet{family, port.Network, port.Port(), device}
			if a.IsLoopback() {
				p.device = "lo"
			}
			v, err := m.firewall(p)
			if err != nil {
				return "", err
			}
			if v.drops {
				v.explain(p, port.Effect, r)
			}
		}
	}
	return "no rule of nftables keeps clients out", nil
}

func (v *verdict) explain(p packet, effect string, r *report) {
	kind, effect, sure := Wrong, effect+" by "+p.family, ""
	if v.unsure {
		kind, effect, sure = Better, "perhaps "+effect, ", unless a rule that sluice cannot judge accepts it"
	}
	r.add(kind, effect, fmt.Sprintf("nft insert rule %s %s dport %d accept", v.by, p.protocol, p.port),
		"%s, chain %s drops %s %d%s", p.family, v.by, strings.ToUpper(p.protocol), p.port, sure)
}
