package fastpath

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unsafe"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// packetKeys are the keys of one direction in one key phase.
type packetKeys claim.PacketKeys

// words returns the keys as the programs read them.
func (p *packetKeys) words() (k bpf.PacketKeys) {
	for i := range k.Key {
		k.Key[i] = binary.LittleEndian.Uint32(p.Key[4*i:])
		k.Hp[i] = binary.LittleEndian.Uint32(p.HeaderProtection[4*i:])
	}
	for i := range k.Iv {
		// In memory order: the program combines the IV with a packet number in network byte order.
		k.Iv[i] = binary.NativeEndian.Uint32(p.IV[4*i:])
	}
	return k
}

// subscriberPath is how a subscriber is reached.
type subscriberPath struct {
	Local, Remote    netip.AddrPort // of one family
	ConnectionID     []byte         // destination connection ID
	StreamPrefix     []byte         // WebTransport's, in front of a stream
	DatagramPrefix   []byte         // and of a datagram
	InitialMaxStream uint64         // initial_max_stream_data_uni
	MaxDatagram      uint64         // max_datagram_frame_size
}

func (p *subscriberPath) validate() error {
	var v bpf.Path
	switch {
	case p.Local.Addr().IsUnspecified():
		return fmt.Errorf("fast path: the local address of packets to %v is not known", p.Remote)
	case p.Local.Addr().Is4() != p.Remote.Addr().Is4():
		return fmt.Errorf("fast path: %v and %v are of different families", p.Local, p.Remote)
	case len(p.ConnectionID) > maxConnectionIDLen, len(p.StreamPrefix) > len(v.StreamPrefix),
		len(p.DatagramPrefix) > len(v.DatagramPrefix):
		return fmt.Errorf("fast path: a connection ID or prefix of %v is too long", p.Remote)
	}
	return nil
}

// udpPath returns the addresses of datagrams to a peer, which are of one family.
func udpPath(local, remote netip.AddrPort) bpf.UDPPath {
	v := bpf.UDPPath{Sport: bigEndian16(local.Port()), Dport: bigEndian16(remote.Port())}
	if local.Addr().Is6() {
		v.V6 = 1
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

// subscription is a downstream subscription in the kernel's terms.
type subscription struct {
	Subscriber  uint32 // index of its connection
	Alias       uint64 // on the subscriber's hop
	StartGroup  uint64
	StartObject uint64
	EndGroup    uint64 // inclusive
	Forward     bool
	Priority    uint8 // Subscriber Priority
}

// partLen is how many subscriptions a part of a track's list has.
const partLen = bpf.IngressCapacityPART_LEN

// trackValue returns the parts of a track's list: at least one. They all repeat v.
func trackValue(v bpf.Track, subscriptions []subscription) (parts []bpf.Track) {
	v.Count = uint32(len(subscriptions))
	parts = append(parts, v)
	for i, s := range subscriptions {
		if i > 0 && i%int(partLen) == 0 {
			parts = append(parts, v)
		}
		parts[len(parts)-1].Subscriptions[i%int(partLen)] = s.value()
	}
	return parts
}

func (s *subscription) value() bpf.Subscription {
	v := bpf.Subscription{
		Alias: s.Alias, StartGroup: s.StartGroup, StartObject: s.StartObject, EndGroup: s.EndGroup,
		Subscriber: s.Subscriber, Priority: s.Priority,
	}
	if s.Forward {
		v.Forward = 1
	}
	return v
}

// bigEndian32 returns a number as it lies in a packet.
func bigEndian32(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return *(*uint32)(unsafe.Pointer(&b))
}

// bigEndian16 returns a port as it lies in a packet.
func bigEndian16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return *(*uint16)(unsafe.Pointer(&b))
}
