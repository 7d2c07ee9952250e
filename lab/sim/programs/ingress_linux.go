package programs

import (
	"crypto/cipher"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/crypto/chacha20poly1305"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/keystream"
	"sluice/internal/packet"
	"sluice/transport"
)

const (
	longHeader   = 0x80
	fixedBit     = 0x40
	reservedBits = 0x18
	maxPacket    = 1452 // that user space reads
	maxPayload   = 1500
	tagLen       = chacha20poly1305.Overhead
	sampleAt     = 4 // from the packet number on (RFC 9001 §5.4.2)
)

// opened is a packet that is authentic.
type opened struct {
	connection uint32 // that it came on
	number     uint64
	payload    []byte
}

// takePacket does what server_ingress does, and returns what became of the packet.
func (r *run) takePacket(a *arrival) bpf.Reason {
	o, why := r.openDatagram(a)
	if why != bpf.IngressReasonPACKET_OPENED {
		return why
	}
	r.step()
	p := &r.machine.Publishers[o.connection]
	if why = takeNumber(p, o.number); why != bpf.IngressReasonPACKET_OPENED {
		return why
	}
	w, walked := walkFrames(o.payload)
	if walked == walkMalformed {
		return bpf.IngressReasonPACKET_MALFORMED
	}
	r.budget = r.habits.Budget * (copyWork + maxPayload)
	for i := range w.frames {
		r.step()
		if f := &w.frames[i]; f.datagram {
			r.forwardDatagram(o.connection, f)
		} else {
			r.forwardStream(o.connection, f)
		}
	}
	if walked == walkStopped {
		return bpf.IngressReasonPACKET_UNKNOWN_FRAME
	}
	return bpf.IngressReasonPACKET_OPENED
}

func (r *run) openDatagram(a *arrival) (o opened, why bpf.Reason) {
	if len(a.data) == 0 || a.data[0]&longHeader != 0 {
		return o, bpf.IngressReasonPACKET_LONG_HEADER
	}
	if a.data[0]&fixedBit == 0 {
		return o, bpf.IngressReasonPACKET_INVALID
	}
	if o, why = r.openPacket(a.data); why != bpf.IngressReasonPACKET_OPENED {
		return o, why
	}
	path, ok := r.findPath(o.connection)
	if !ok || remoteOf(&path) != a.from {
		return o, bpf.IngressReasonPACKET_OTHER_PATH
	}
	return o, why
}

// findPath returns where a connection's packets go.
func (k *Kernel) findPath(connection uint32) (bpf.Path, bool) {
	version := atomic.LoadUint64(&k.machine.PathVersions[connection])
	if version == 0 {
		return bpf.Path{}, false
	}
	return k.paths.get(bpf.VersionKey{Version: version, Index: connection})
}

// remoteOf returns where a path leads: hosts have IPv4 addresses.
func remoteOf(p *bpf.Path) netip.AddrPort {
	port := bits.ReverseBytes16(p.Udp.Dport)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(p.Udp.Daddr[:4])), port)
}

// openPacket opens a packet with a short header, see transport/open.h.
func (r *run) openPacket(data []byte) (o opened, why bpf.Reason) {
	const pnAt = 1 + transport.ConnectionIDLength
	switch n := len(data); {
	case n < pnAt+sampleAt+16:
		return o, bpf.IngressReasonPACKET_TOO_SHORT
	case n > maxPacket:
		return o, bpf.IngressReasonPACKET_TOO_LONG
	}
	id := bpf.ConnectionID{Len: transport.ConnectionIDLength}
	copy(id.Bytes[:], data[1:pnAt])
	var ok bool
	if o.connection, ok = r.ids.get(id); !ok {
		return o, bpf.IngressReasonPACKET_NOT_MEDIA
	}
	p := &r.machine.Publishers[o.connection]
	if !isActive(p) {
		return o, bpf.IngressReasonPACKET_INACTIVE
	}
	first := peekKeys(&p.Keys[0])
	mask := headerMask(&first, data[pnAt+sampleAt:])
	b := slices.Clone(data)
	b[0] ^= mask[0] & 0x1f
	n := int(b[0]&3) + 1
	for i := range n {
		b[pnAt+i] ^= mask[1+i]
	}
	o.number = packet.DecodeNumber(b[pnAt:pnAt+n], atomic.LoadUint64(&p.ExpectedPn))
	phase := b[0] >> 2 & 1
	if len(b)-pnAt-n <= tagLen {
		return o, bpf.IngressReasonPACKET_TOO_SHORT
	}
	if atomic.LoadUint32(&p.KeysSet)>>phase&1 == 0 {
		return o, bpf.IngressReasonPACKET_NO_KEY
	}
	keys := peekKeys(&p.Keys[phase])
	a, nonce := keys.aead(o.number)
	payload, err := a.Open(b[pnAt+n:pnAt+n], nonce[:], b[pnAt+n:], b[:pnAt+n])
	if err != nil {
		return o, bpf.IngressReasonPACKET_FORGED
	}
	if b[0]&reservedBits != 0 {
		return o, bpf.IngressReasonPACKET_INVALID
	}
	o.payload = payload
	expectAfter(p, o.number)
	return o, bpf.IngressReasonPACKET_OPENED
}

// isActive reads what user space writes as the kernel does, which the race detector does not see either.
//
//go:norace
func isActive(p *bpf.Publisher) bool { return p.Active != 0 }

// keys are the keys of one direction in one phase.
type keys claim.PacketKeys

// peekKeys copies keys, which user space may be replacing: then packets are forged.
//
//go:norace
func peekKeys(from *bpf.PacketKeys) keys { return *(*keys)(unsafe.Pointer(from)) }

// aead returns what seals and opens the packet with a number, and its nonce (RFC 9001 §5.3).
func (k *keys) aead(number uint64) (a cipher.AEAD, nonce [12]byte) {
	nonce = k.IV
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^number)
	a, _ = chacha20poly1305.New(k.Key[:]) // fails for keys of other lengths only
	return a, nonce
}

// headerMask returns the mask of header protection (RFC 9001 §5.4.4).
func headerMask(k *keys, sample []byte) [keystream.SampleLen]byte {
	masks := [1][keystream.SampleLen]byte{[keystream.SampleLen]byte(sample)}
	keystream.Masks(masks[:], &k.HeaderProtection)
	return masks[0]
}

func expectAfter(p *bpf.Publisher, number uint64) {
	for expected := atomic.LoadUint64(&p.ExpectedPn); number >= expected; expected = atomic.LoadUint64(&p.ExpectedPn) {
		if atomic.CompareAndSwapUint64(&p.ExpectedPn, expected, number+1) {
			return
		}
	}
}

// takeNumber notes that a packet has come, see transport/numbers.h.
func takeNumber(p *bpf.Publisher, number uint64) bpf.Reason {
	upper, bit := uint32(number/32), uint64(1)<<(number%32)
	word := &p.Numbers[upper%uint32(len(p.Numbers))]
	if number < atomic.LoadUint64(&p.FirstNumber) {
		return bpf.IngressReasonPACKET_OLD
	}
	for range 4 {
		seen := atomic.LoadUint64(word)
		ahead := int32(upper - uint32(seen>>32))
		if ahead < 0 {
			return bpf.IngressReasonPACKET_OLD
		}
		next := uint64(upper)<<32 | bit
		if ahead == 0 {
			if seen&bit != 0 {
				return bpf.IngressReasonPACKET_REPLAYED
			}
			next |= seen & 0xffffffff
		}
		if atomic.CompareAndSwapUint64(word, seen, next) {
			return bpf.IngressReasonPACKET_OPENED
		}
	}
	return bpf.IngressReasonPACKET_OLD
}
