package fastpath

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/keystream"
	packets "sluice/internal/packet"
)

const (
	slotTaken = uint64(bpf.IngressSlotWordSLOT_TAKEN)
	ringLen   = uint64(bpf.IngressLookaheadLOOKAHEAD)
	// maxKeyStream is the longest key stream of a packet, in bytes.
	maxKeyStream = int(unsafe.Sizeof(bpf.KeyStream{}.Stream))
	// maxRefill bounds the key streams that are made for one ACK, to 9 µs of work.
	maxRefill = 16
	// worthwhile is the time that a used key stream saves, in multiples of the time that making one takes.
	worthwhile = 3
)

// lookahead makes the key streams of packets that the kernel is going to send on a connection, or to open: user space
// has vector instructions, and time between video frames. See bpf/transport/lookahead.h for the protocol. It is guarded
// by conn.mu.
type lookahead struct {
	index   uint32          // of the ring
	keys    [4]*streamKey   // by key generation; nil: none, or erased
	ring    []bpf.KeyStream // shared memory; nil: none yet
	wanted  bool            // the connection needs a ring
	refused bool            // there was no memory for a ring

	generation, next uint64 // the packets', at the last look
	used             uint64 // packets that the kernel had sent, or that had come, by then
	worth            bool   // these are so many of the packets that key streams save time
	made             uint64 // packets with lower numbers have key streams, or need none
	longest          [2]int // payload that was sealed or opened in this turn of the ring, and in the last
	idle             int    // how many times the reclaimer has looked since a packet was
}

// ringsOf returns the indices of the rings for the packets to and from a connection.
func ringsOf(connection uint32) (sealing, opening uint32) {
	first := connection * uint32(bpf.IngressLookaheadRingRINGS)
	return first + uint32(bpf.IngressLookaheadRingRING_SEAL), first + uint32(bpf.IngressLookaheadRingRING_OPEN)
}

// streamKey makes key streams of one key generation.
type streamKey claim.PacketKeys

func (k *streamKey) erase() {
	if k != nil {
		*k = streamKey{}
	}
}

// fill makes at least the first n bytes of a packet's key stream (RFC 9001 §5.3, RFC 8439 §2.8). Block 0 is Poly1305's
// one-time key. The rest of its run belongs to the key stream.
func (k *streamKey) fill(slot *bpf.KeyStream, number uint64, n int) {
	nonce := k.IV
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^number)
	stream, made := bytesOf(&slot.Stream), firstRun
	var run [keystream.RunLen]byte
	keystream.Run(&run, &k.Key, &nonce, 0)
	copy(bytesOf(&slot.OneTimeKey), run[:])
	copy(stream, run[keystream.BlockLen:])
	for ; made < n; made += keystream.RunLen {
		counter := 1 + made/keystream.BlockLen
		keystream.Run((*[keystream.RunLen]byte)(stream[made:]), &k.Key, &nonce, uint32(counter))
	}
	slot.Len = uint32(made)
}

// firstRun is how many bytes of the first run belong to the key stream. Whole runs follow until maxKeyStream.
const firstRun = keystream.RunLen - keystream.BlockLen

func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// setKeys is called before packets of a key generation are sent.
func (a *lookahead) setKeys(generation uint64, k *claim.PacketKeys) {
	key := streamKey(*k)
	a.keys[generation&3] = &key
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

// look notes how many key streams were used since the last look: word is the key generation and the number of the next
// packet, used the number of packets that the kernel has used a key stream for.
func (a *lookahead) look(word, used uint64) {
	generation, next := word>>claim.GenerationShift, word&claim.NumberMask
	if n := next - a.next; n > 0 {
		a.worth = !packets.Unprotected && worthwhile*(used-a.used) >= n
	}
	if a.worth && a.used != used {
		a.wanted, a.idle = a.ring == nil && !a.refused, 0
	}
	if a.made = max(a.made, next); a.generation != generation {
		a.made = next
	}
	a.generation, a.next, a.used = generation, next, used
}

// refill makes at most n new key streams in the place of used ones.
func (a *lookahead) refill(n uint64) {
	key := a.keys[a.generation]
	if a.ring == nil || !a.worth || key == nil {
		return
	}
	for end := min(a.next+ringLen, a.made+n); a.made < end; a.made++ {
		slot := &a.ring[a.made%ringLen]
		old := atomic.LoadUint64(&slot.Word)
		if old == slotTaken || !atomic.CompareAndSwapUint64(&slot.Word, old, slotTaken) {
			continue // a program is using it
		}
		key.fill(slot, a.made, a.length(slot))
		atomic.StoreUint64(&slot.Word, a.generation<<claim.GenerationShift|a.made)
	}
}

// length returns how many bytes of key stream to make: as many as packets used lately, or else all. slot belongs to the
// next packet.
func (a *lookahead) length(slot *bpf.KeyStream) int {
	if a.made%ringLen == 0 {
		a.longest[0], a.longest[1] = 0, a.longest[0]
	}
	a.longest[0] = max(a.longest[0], int(slot.Used))
	slot.Used = 0
	n := max(a.longest[0], a.longest[1])
	if n == 0 {
		return maxKeyStream
	}
	return min(n, maxKeyStream)
}
