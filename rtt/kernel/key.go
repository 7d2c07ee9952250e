package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"sluice/rtt/bpf"
	"sluice/rtt/report"
)

// newPrefix returns the prefix of a key, without values.
func (a *Aggregator) newPrefix(key bpf.MonitorPrefixKey) *report.Prefix {
	p := &report.Prefix{
		VLAN: report.VLAN{ID: key.Vlan, Inner: key.InnerVlan}, RTT: report.Histogram{Width: a.config.BinWidth},
	}
	if a.groups != nil {
		p.Group = a.groups.name(uint32(key.Prefix))
	} else {
		p.Prefix = a.prefix(key, key.Prefix, bpf.MonitorPrefixFlagPREFIX_IPV6)
	}
	if a.config.By.Pair {
		p.Peer = a.peer(key)
	}
	if key.Interface != 0 {
		p.Interface = a.interfaceName(key.Interface)
	}
	if key.Transport != 0 {
		p.Protocol = transportNames[key.Transport]
	}
	return p
}

// peer returns the prefix or the group at the other end.
func (a *Aggregator) peer(key bpf.MonitorPrefixKey) string {
	switch {
	case a.groups != nil:
		return a.groups.name(uint32(key.Peer))
	case key == a.rest[len(a.rest)-1]:
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0).String() // its flags tell nothing of the peers
	}
	return a.prefix(key, key.Peer, bpf.MonitorPrefixFlagPREFIX_PEER_IPV6).String()
}

// prefix returns the prefix of a number in a key, which is one of IPv6 if the key has the flag.
func (a *Aggregator) prefix(key bpf.MonitorPrefixKey, number uint64, ipv6 bpf.MonitorPrefixFlag) netip.Prefix {
	addr, bits := address4(number), a.config.IPv4Prefix
	if key.Flags&uint8(ipv6) != 0 {
		addr, bits = address6(number), a.config.IPv6Prefix
	}
	if addr.IsUnspecified() {
		bits = 0
	}
	return netip.PrefixFrom(addr, bits)
}

func address4(number uint64) netip.Addr {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], uint32(number))
	return netip.AddrFrom4(b)
}

func address6(upperHalf uint64) netip.Addr {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], upperHalf)
	return netip.AddrFrom16(b)
}

func (a *Aggregator) interfaceName(index uint32) string {
	if name, ok := a.config.Interfaces[index]; ok {
		return name
	}
	return fmt.Sprintf("interface %d", index)
}
