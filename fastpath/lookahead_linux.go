package fastpath

import (
	"crypto/cipher"
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

const (
	slotTaken = uint64(bpf.IngressSlotWordSLOT_TAKEN)
	ringLen   = uint64(bpf.IngressLookaheadLOOKAHEAD)
	// maxKeyStream is how much of a packet's key stream can be made: behind it, in its slot, is room for an AEAD tag.
	maxKeyStream = int(unsafe.Sizeof(bpf.KeyStream{}.Stream)) - chacha20poly1305.Overhead
	// maxRefill bounds the packets that one ACK has key streams made for, to 12 µs of work.
	maxRefill = 16
	// worthwhile is how many times the time that it takes to make a key stream is saved when the kernel uses it.
	worthwhile = 3
	// idleRing is how many times the reclaimer looks before it takes away memory that is not used.
	idleRing = 100
	// maxRings bounds the rings that the reclaimer makes at a time: before Linux 6.8, the kernel waits some 10 ms for
	// each.
	maxRings = 8
)

// lookahead makes the key streams of packets that the kernel is going to send on a connection: it has vector
// instructions, and time between frames. See bpf/lookahead.h for the protocol.
type lookahead struct {
	keys    [4]*streamKey   // by key generation
	ring    []bpf.KeyStream // memory that is shared; nil: there is none yet
	wanted  bool            // a ring
	refused bool            // there was no memory for one

	generation, next uint64 // of packets, when last looked
	sent             uint64 // copies that the kernel had sent by then
	worth            bool   // the kernel sends enough of the packets
	made             uint64 // key streams of packets with lower numbers have been made, or are not needed
	longest          [2]int // payload that was sealed, in this and the last turn of the ring
	idle             int    // how many times the reclaimer has looked since the kernel sent
}

// streamKey makes key streams of one key generation.
type streamKey struct {
	aead  cipher.AEAD
	key   [chacha20.KeySize]byte
	iv    [chacha20.NonceSize]byte
	nonce [chacha20.NonceSize]byte
}

func newStreamKey(k *claim.PacketKeys) *streamKey {
	s := &streamKey{key: k.Key, iv: k.IV}
	var err error
	if s.aead, err = chacha20poly1305.New(s.key[:]); err != nil {
		panic(err) // the length is constant
	}
	return s
}

func (k *streamKey) erase() {
	if k != nil {
		clear(k.key[:])
		clear(k.iv[:])
	}
}

var zeros [chacha20poly1305.KeySize + maxKeyStream]byte

// fill makes the first n bytes of a packet's key stream (RFC 9001 §5.3, RFC 8439 §2.8): they are what zeros are
// encrypted to. The one-time key, which AEAD does not show, is from the block before them.
func (k *streamKey) fill(slot *bpf.KeyStream, number uint64, n int) {
	copy(k.nonce[:], k.iv[:])
	binary.BigEndian.PutUint64(k.nonce[4:], binary.BigEndian.Uint64(k.nonce[4:])^number)
	c, err := chacha20.NewUnauthenticatedCipher(k.key[:], k.nonce[:])
	if err != nil {
		panic(err) // the lengths are constant
	}
	c.XORKeyStream(bytesOf(&slot.OneTimeKey), zeros[:chacha20poly1305.KeySize])
	k.aead.Seal(bytesOf(&slot.Stream)[:0], k.nonce[:], zeros[:n], nil)
	slot.Len = uint32(n)
}

func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// setKeys is called before packets of a key generation are sent.
func (a *lookahead) setKeys(generation uint64, k *claim.PacketKeys) {
	a.keys[generation&3] = newStreamKey(k)
	a.keys[(generation+2)&3].erase()
	a.keys[(generation+2)&3] = nil
}

// erase forgets all keys. The ring is erased with its memory: a program may be sealing with it.
func (a *lookahead) erase() {
	for i, k := range a.keys {
		k.erase()
		a.keys[i] = nil
	}
}

// look notes what was sent since the last time: word is the shared counter of packet numbers, sent the number of copies
// that the kernel has sent.
func (a *lookahead) look(word, sent uint64) {
	generation, next := word>>claim.GenerationShift, word&claim.NumberMask
	if used := next - a.next; used > 0 {
		a.worth = worthwhile*(sent-a.sent) >= used
	}
	if a.worth && a.sent != sent {
		a.wanted, a.idle = a.ring == nil && !a.refused, 0
	}
	if a.made = max(a.made, next); a.generation != generation {
		a.made = next
	}
	a.generation, a.next, a.sent = generation, next, sent
}

// refill makes key streams in the place of those that were used up.
func (a *lookahead) refill() {
	key := a.keys[a.generation]
	if a.ring == nil || !a.worth || key == nil {
		return
	}
	for end := min(a.next+ringLen, a.made+maxRefill); a.made < end; a.made++ {
		slot := &a.ring[a.made%ringLen]
		if old := atomic.LoadUint64(&slot.Word); old == slotTaken || !atomic.CompareAndSwapUint64(&slot.Word, old, slotTaken) {
			continue // the kernel is using it
		}
		key.fill(slot, a.made, a.length(slot))
		atomic.StoreUint64(&slot.Word, a.generation<<claim.GenerationShift|a.made)
	}
}

// length is how much key stream to make: as much as was used lately, or else all. slot is that of the next packet.
func (a *lookahead) length(slot *bpf.KeyStream) int {
	if a.made%ringLen == 0 {
		a.longest[0], a.longest[1] = 0, a.longest[0]
	}
	a.longest[0] = max(a.longest[0], int(slot.Used))
	slot.Used = 0
	const block = 64
	n := (max(a.longest[0], a.longest[1]) + block - 1) / block * block
	if n == 0 {
		return maxKeyStream
	}
	return min(n, maxKeyStream)
}

// Acknowledged implements [media.SecondConn].
func (c *conn) Acknowledged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.ahead.look(c.fast.states[c.index].NextPN.Load(), atomic.LoadUint64(&c.fast.kernel.copies[c.index].ByReason[0]))
	c.ahead.refill()
}

// tendRings gives rings to the connections that the kernel sends to, and takes them from those that it has not sent to
// for long.
func (r *reclaimer) tendRings() {
	var wanted []*conn
	for _, c := range r.fast.connections() {
		wants, idle := c.ringState()
		switch {
		case idle:
			r.takeRing(c)
		case wants && len(wanted) < maxRings:
			wanted = append(wanted, c)
		}
	}
	if len(wanted) > 0 {
		r.fast.report("provide memory for key streams", r.giveRings(wanted))
	}
}

func (c *conn) ringState() (wanted, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead.idle++
	return c.ahead.wanted && !c.closed, c.ahead.ring != nil && c.ahead.idle > idleRing
}

// giveRings gives connections rings. Those that are closed in the meantime are about to be taken.
func (r *reclaimer) giveRings(conns []*conn) error {
	rings := r.fast.kernel.keyStreams
	var indices []uint32
	for _, c := range conns {
		indices = append(indices, c.index)
	}
	err := rings.lend(indices...)
	for _, c := range conns {
		c.mu.Lock()
		c.ahead.ring, c.ahead.wanted, c.ahead.refused = rings.of(c.index), false, err != nil
		c.mu.Unlock()
	}
	return err
}

// takeRing takes a connection's ring.
func (r *reclaimer) takeRing(c *conn) {
	c.mu.Lock()
	has := c.ahead.ring != nil
	c.ahead.ring, c.ahead.made = nil, 0
	c.mu.Unlock()
	if has {
		r.fast.report("free memory of key streams", r.fast.kernel.keyStreams.takeBack(c.index))
	}
}
