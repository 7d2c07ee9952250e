package packet

import (
	"cmp"
	"encoding/binary"
)

// maxOpened is the size of the largest packet that an [Opener] opens, unless it has more Room.
const maxOpened = 256

// shortestSealed is the shortest rest of a packet, from its number on (RFC 9001 §5.4.2).
const shortestSealed = 4 + sampleLength

// Opener opens small packets of one direction. It has the keys of the newest generation only. The zero value has none.
type Opener struct {
	Room       int // for the largest packet; 0: 256 bytes
	key        *Key
	generation uint64
	header     headerProtection
	opening    *opening // nil until a packet is opened
}

// opening is the memory for opening a packet.
type opening struct {
	packet []byte
	masks  [1][sampleLength]byte
	nonce  [12]byte
}

// Install replaces the key by the key of another generation.
func (o *Opener) Install(generation uint64, k *Key) {
	o.key, o.generation = k, generation
	if k.header != nil {
		o.header = k.header
	}
}

// Open opens a packet whose number begins at an offset. expected is one more than the largest number received. It
// reports whether the packet is authentic, of the key's generation, and well formed. The payload is valid until the
// next call. The packet itself does not change.
func (o *Opener) Open(p []byte, at int, expected uint64) (number uint64, payload []byte, ok bool) {
	room := cmp.Or(o.Room, maxOpened)
	if o.key == nil || o.header == nil || len(p) > room || len(p) < at+shortestSealed {
		return 0, nil, false
	}
	if o.opening == nil {
		o.opening = &opening{packet: make([]byte, room)}
	}
	b := o.opening.packet[:copy(o.opening.packet, p)]
	n := o.unmask(b, at)
	if b[0]&^3 != 0x40|byte(o.generation&1)<<2 { // RFC 9000 §17.3.1; reserved bits are 0
		return 0, nil, false
	}
	number = DecodeNumber(b[at:at+n], expected)
	nonce := &o.opening.nonce
	*nonce = o.key.iv
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^number)
	header := at + n
	payload, err := o.key.aead.Open(b[header:header], nonce[:], b[header:], b[:header])
	return number, payload, err == nil
}

// unmask removes the protection of a header (RFC 9001 §5.4.1), and returns the length of the packet number.
func (o *Opener) unmask(b []byte, at int) (n int) {
	masks := &o.opening.masks
	copy(masks[0][:], b[at+4:])
	o.header.apply(masks[:])
	b[0] ^= masks[0][0] & 0x1f
	n = int(b[0]&3) + 1
	for i := range n {
		b[at+i] ^= masks[0][1+i]
	}
	return n
}

// DecodeNumber returns the packet number that is closest to the expected one (RFC 9000 §A.3).
func DecodeNumber(b []byte, expected uint64) uint64 {
	const limit = 1 << 62
	var low uint64
	for _, x := range b {
		low = low<<8 | uint64(x)
	}
	window := uint64(1) << (8 * len(b))
	number := expected&^(window-1) | low
	switch {
	case number+window/2 <= expected && number < limit-window:
		return number + window
	case number > expected+window/2 && number >= window:
		return number - window
	}
	return number
}

// Erase forgets the keys.
func (o *Opener) Erase() {
	if h, ok := o.header.(*chachaHeader); ok {
		clear(h.key[:])
	}
	if o.key != nil {
		clear(o.key.iv[:])
	}
	*o = Opener{}
}
