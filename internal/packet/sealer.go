package packet

import (
	"encoding/binary"

	"sluice/internal/keystream"
)

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
	sealed *sealed // nil until a packet is sealed: most connections only receive
}

// maxSealed is how many headers are protected together: as many masks as ChaCha20 makes at once.
const maxSealed = keystream.MaxMasks

// sealed is packets whose headers are to be protected.
type sealed struct {
	packets [maxSealed]struct {
		packet []byte
		header int
	}
	n     int
	masks [maxSealed][sampleLength]byte
}

// Install adds the key of a generation, and forgets the key that no packet can need any more.
func (s *Sealer) Install(generation uint64, k *Key) {
	s.keys[generation&3] = k
	s.keys[(generation+2)&3] = nil
	if k.header != nil {
		s.header = k.header
	}
}

// Ready reports whether the key of the first generation is installed.
func (s *Sealer) Ready() bool { return s.header != nil }

// Seal encrypts a packet (RFC 9001 §5.3). header is the length of its header, up to and including the packet number.
// The slice needs room for the tag. Seal returns the whole packet, whose header Protect protects.
func (s *Sealer) Seal(packet []byte, header int, number, generation uint64) []byte {
	k := s.keys[generation&3]
	copy(s.nonce[:], k.iv[:])
	binary.BigEndian.PutUint64(s.nonce[4:], binary.BigEndian.Uint64(s.nonce[4:])^number)
	packet = k.aead.Seal(packet[:header], s.nonce[:], packet[header:], packet[:header])
	switch {
	case s.sealed == nil:
		s.sealed = new(sealed)
	case s.sealed.n == maxSealed:
		s.Protect()
	}
	p := &s.sealed.packets[s.sealed.n]
	p.packet, p.header = packet, header
	s.sealed.n++
	return packet
}

// Protect protects the headers of the packets that were sealed since the last call (RFC 9001 §5.4).
func (s *Sealer) Protect() {
	if s.sealed == nil || s.sealed.n == 0 {
		return
	}
	packets, masks := s.sealed.packets[:s.sealed.n], s.sealed.masks[:s.sealed.n]
	for i, p := range packets {
		copy(masks[i][:], p.packet[p.header:])
	}
	s.header.apply(masks)
	for i, p := range packets {
		p.packet[0] ^= masks[i][0] & 0x1f
		for j := range NumberLength {
			p.packet[p.header-NumberLength+j] ^= masks[i][1+j]
		}
	}
	clear(packets)
	s.sealed.n = 0
}

// Erase protects the sealed packets, and forgets all keys.
func (s *Sealer) Erase() {
	s.Protect()
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
