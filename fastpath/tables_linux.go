package fastpath

import (
	"fmt"
	"math/bits"
	"net/netip"
	"unsafe"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// wordsOf returns keys as the programs read them: the same bytes.
func wordsOf(k *claim.PacketKeys) (words bpf.PacketKeys) {
	*(*claim.PacketKeys)(unsafe.Pointer(&words)) = *k
	return words
}

// pathOf returns how a subscriber is reached, as the programs read it.
func pathOf(p *claim.Path, s *claim.Session) (v bpf.Path, err error) {
	switch {
	case p.Local.Addr().IsUnspecified():
		return v, fmt.Errorf("fast path: the local address of packets to %v is not known", p.Remote)
	case p.Local.Addr().Is4() != p.Remote.Addr().Is4():
		return v, fmt.Errorf("fast path: %v and %v are of different families", p.Local, p.Remote)
	case len(p.DestConnID) > maxConnectionIDLen, len(s.StreamPrefix) > len(v.StreamPrefix),
		len(s.DatagramPrefix) > len(v.DatagramPrefix):
		return v, fmt.Errorf("fast path: a connection ID or prefix of %v is too long", p.Remote)
	}
	v = bpf.Path{
		Udp:     udpPath(p.Local, p.Remote),
		DcidLen: uint8(len(p.DestConnID)), StreamPrefixLen: uint8(len(s.StreamPrefix)),
		DatagramPrefixLen: uint8(len(s.DatagramPrefix)),
		StreamLimit:       p.MaxStreamData, DatagramLimit: p.MaxDatagramFrame,
	}
	copy(v.Dcid[:], p.DestConnID)
	copy(v.StreamPrefix[len(v.StreamPrefix)-len(s.StreamPrefix):], s.StreamPrefix)
	copy(v.DatagramPrefix[len(v.DatagramPrefix)-len(s.DatagramPrefix):], s.DatagramPrefix)
	return v, nil
}

// udpPath returns the addresses of datagrams to a peer, which are of one family.
func udpPath(local, remote netip.AddrPort) bpf.UDPPath {
	v := bpf.UDPPath{
		Sport: bigEndian16(local.Port()), Dport: bigEndian16(remote.Port()), V6: flag[uint8](local.Addr().Is6()),
	}
	copy(v.Saddr[:], local.Addr().AsSlice())
	copy(v.Daddr[:], remote.Addr().AsSlice())
	return v
}

func connectionID(cid []byte) (id bpf.ConnectionID) {
	copy(id.Bytes[:], cid)
	id.Len = uint32(len(cid))
	return id
}

// partLen is how many subscriptions a part of a track's list has.
const partLen = bpf.IngressCapacityPART_LEN

// trackValue returns the parts of a track's list: at least one. They all repeat v.
func trackValue(v bpf.Track, subscriptions []bpf.Subscription) (parts []bpf.Track) {
	v.Count = uint32(len(subscriptions))
	parts = append(parts, v)
	for i, s := range subscriptions {
		if i > 0 && i%int(partLen) == 0 {
			parts = append(parts, v)
		}
		parts[len(parts)-1].Subscriptions[i%int(partLen)] = s
	}
	return parts
}

// flag returns a truth value as the programs read it.
func flag[T uint8 | uint32 | uint64](set bool) (n T) {
	if set {
		n = 1
	}
	return n
}

// bigEndian32 returns a number as it lies in a packet.
func bigEndian32(v uint32) uint32 { return bits.ReverseBytes32(v) }

// bigEndian16 returns a port as it lies in a packet.
func bigEndian16(v uint16) uint16 { return bits.ReverseBytes16(v) }
