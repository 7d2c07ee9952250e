package packet

import "encoding/binary"

// Lengths of parts of a packet, in bytes.
const (
	NumberLength = 4  // of the packet number
	TagLength    = 16 // of the AEAD's tag
)

// Sealer protects the packets of one direction in place. The zero value has no keys. It must not be copied once it has.
type Sealer struct {
	keys   [4]*Key // by key generation modulo 4; only the last two are kept
	header headerProtection
	nonce  [12]byte
	mask   [sampleLength]byte
}

// Install adds the key of a generation, and forgets the one that no packet can need any more.
func (s *Sealer) Install(generation uint64, k *Key) {
	s.keys[generation&3] = k
	s.keys[(generation+2)&3] = nil
	if k.header != nil {
		s.header = k.header
	}
}

// Ready reports whether the key of the first generation is installed.
func (s *Sealer) Ready() bool { return s.header != nil }

// Seal protects a packet. header is the length of its header, up to and including the packet number. The slice needs
// room for the tag. Seal returns the whole packet.
func (s *Sealer) Seal(packet []byte, header int, number, generation uint64) []byte {
	k := s.keys[generation&3]
	copy(s.nonce[:], k.iv[:])
	binary.BigEndian.PutUint64(s.nonce[4:], binary.BigEndian.Uint64(s.nonce[4:])^number)
	packet = k.aead.Seal(packet[:header], s.nonce[:], packet[header:], packet[:header])
	copy(s.mask[:], packet[header:])
	s.header.apply(&s.mask)
	packet[0] ^= s.mask[0] & 0x1f
	for i := range NumberLength {
		packet[header-NumberLength+i] ^= s.mask[1+i]
	}
	return packet
}

// Erase forgets all keys.
func (s *Sealer) Erase() {
	if h, ok := s.header.(*chachaHeader); ok {
		clear(h.key[:])
	}
	for _, k := range s.keys {
		if k != nil {
			clear(k.iv[:])
		}
	}
	*s = Sealer{}
}
