package report

// Keys tell aggregates apart, besides their prefix or group.
type Keys struct {
	Pair      bool // the prefix or group at the other end
	VLAN      bool
	Interface bool
	Protocol  bool
}

// Names returns the names of the keys, for labels.
func (k Keys) Names() []string {
	names := []string{"prefix"}
	for _, key := range []struct {
		used bool
		name string
	}{{k.Pair, "peer"}, {k.VLAN, "vlan"}, {k.Interface, "interface"}, {k.Protocol, "protocol"}} {
		if key.used {
			names = append(names, key.name)
		}
	}
	return names
}

// Values returns the values of a prefix for Names.
func (k Keys) Values(p *Prefix) []string {
	values := []string{p.String()}
	if k.Pair {
		values = append(values, p.Peer)
	}
	if k.VLAN {
		values = append(values, p.VLAN.String())
	}
	if k.Interface {
		values = append(values, p.Interface)
	}
	if k.Protocol {
		values = append(values, p.Protocol)
	}
	return values
}
