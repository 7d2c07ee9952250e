package wire

import "encoding/binary"

// EtherTypes.
const (
	TypeVLAN        = 0x8100
	TypeServiceVLAN = 0x88a8
	TypePPPoE       = 0x8864
	TypeARP         = 0x0806
)

var macs = []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}

// Frame returns an Ethernet frame around an IP packet, with VLAN tags from the outermost to the innermost.
func Frame(packet []byte, vlans ...uint16) []byte {
	b := append([]byte(nil), macs...)
	for i, id := range vlans {
		tag := uint16(TypeVLAN)
		if i == 0 && len(vlans) > 1 {
			tag = TypeServiceVLAN
		}
		b = binary.BigEndian.AppendUint16(b, tag)
		b = binary.BigEndian.AppendUint16(b, id)
	}
	return append(binary.BigEndian.AppendUint16(b, etherType(packet)), packet...)
}

// Ethernet returns a frame of any type.
func Ethernet(etherType uint16, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(append([]byte(nil), macs...), etherType)
	return append(b, payload...)
}

// PPPoE returns an Ethernet frame with a PPPoE session packet (RFC 2516) around an IP packet.
func PPPoE(session uint16, packet []byte) []byte {
	b := []byte{0x11, 0}
	b = binary.BigEndian.AppendUint16(b, session)
	b = binary.BigEndian.AppendUint16(b, uint16(len(packet)+2))
	protocol := uint16(0x0021)
	if packet[0]>>4 == 6 {
		protocol = 0x0057
	}
	b = binary.BigEndian.AppendUint16(b, protocol)
	return Ethernet(TypePPPoE, append(b, packet...))
}

func etherType(packet []byte) uint16 {
	if packet[0]>>4 == 6 {
		return 0x86dd
	}
	return 0x0800
}
