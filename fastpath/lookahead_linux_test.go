package fastpath

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
	"sluice/lab"
)

const slotFree = uint64(bpf.IngressSlotWordSLOT_FREE)

// lookAhead makes the key streams of a subscriber's next packets, as after the kernel has sent it one.
func (r *rig) lookAhead(s *subscriber) *conn {
	c := r.connection(s.index)
	c.WriteKeys(0, (*claim.PacketKeys)(s.keys))
	c.Acknowledged()
	r.kernel.conns[s.index].NextPn++
	r.kernel.copies[s.index].ByReason[0]++
	c.Acknowledged()
	require.Eventually(r.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.sealing.ring != nil
	}, time.Minute, time.Millisecond)
	for range ringLen / maxRefill {
		c.Acknowledged()
	}
	return c
}

// openAhead waits for the memory for key streams of the publisher's packets, as after some of them have come. The next
// call of Received makes them.
func (r *rig) openAhead() *conn { return r.openAheadOf(publisherIndex, r.keys, r.nextPN) }

// openAheadOf does so for the publisher with an index.
func (r *rig) openAheadOf(index uint32, keys *claim.PacketKeys, next uint64) *conn {
	c := r.connection(index)
	c.ReadKeys(0, (*claim.PacketKeys)(keys))
	require.True(r.t, c.addTrack())
	c.Received(int64(next) - 1)
	require.Eventually(r.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.opening.ring != nil
	}, time.Minute, time.Millisecond)
	return c
}

// aheadRig is the programs' cryptography, with a ring for a connection.
type aheadRig struct {
	*bpftest.Crypto
	testing.TB
	keys   bpftest.CryptoPacketKeys // of generation 0
	ahead  lookahead
	counts map[bpf.Reason]uint64 // at the last look
}

const aheadIndex = 1

// newAheadRig returns one with the ring of that index.
func newAheadRig(t testing.TB, index uint32) *aheadRig {
	r := &aheadRig{Crypto: bpftest.NewCrypto(t), TB: t, keys: bpftest.RandomKeys(), counts: make(map[bpf.Reason]uint64)}
	rings, err := newLent[bpf.KeyStream](r.Lookaheads, uint32(ringLen))
	require.NoError(t, err)
	require.NoError(t, rings.lend(index))
	t.Cleanup(func() { require.NoError(t, rings.close()) })
	r.ahead.ring = rings.of(index)
	for generation := range uint64(2) {
		keys, p := r.keysOf(generation), new(claim.PacketKeys)
		copy(p.Key[:], bpftest.Bytes(&keys.Key))
		copy(p.IV[:], bpftest.Bytes(&keys.Iv))
		r.ahead.setKeys(generation, p)
	}
	return r
}

func newSealingRig(t testing.TB) *aheadRig {
	index, _ := ringsOf(aheadIndex)
	return newAheadRig(t, index)
}

func newOpeningRig(t testing.TB) *aheadRig {
	_, index := ringsOf(aheadIndex)
	return newAheadRig(t, index)
}

func (r *aheadRig) keysOf(generation uint64) bpftest.CryptoPacketKeys {
	k := r.keys
	k.Key[0] ^= uint32(generation)
	return k
}

// sealed seals n bytes, expects the same bytes as from x/crypto, and reports whether the program found the key stream
// in the ring.
func (r *aheadRig) sealed(word uint64, n int) (ahead bool) {
	r.Helper()
	keys := r.keysOf(word >> claim.GenerationShift)
	plaintext, aad := bpftest.RandomBytes(n), bpftest.RandomBytes(2+rand.IntN(24))
	got := r.Seal(r, bpftest.CryptoCryptoArgs{Keys: keys, Pn: word, Connection: aheadIndex}, plaintext, aad)
	require.Equal(r, bpftest.Reference(r, &keys, word&claim.NumberMask, plaintext, aad), got, "packet %#x, %d bytes",
		word, n)

	return r.counted(bpf.IngressReasonSEAL_AHEAD, bpf.IngressReasonSEAL_COMPUTED)
}

// opened opens a packet with n bytes, and one that was altered before, and reports whether the program found the key
// stream in the ring both times.
func (r *aheadRig) opened(word uint64, n int) (ahead bool) {
	r.Helper()
	const countAhead, countComputed = bpf.IngressReasonOPEN_AHEAD, bpf.IngressReasonOPEN_COMPUTED
	keys := r.keysOf(word >> claim.GenerationShift)
	plaintext, aad := bpftest.RandomBytes(n), bpftest.RandomBytes(2+rand.IntN(24))
	sealed := bpftest.Reference(r, &keys, word&claim.NumberMask, plaintext, aad)
	a := bpftest.CryptoCryptoArgs{Keys: keys, Pn: word, Connection: aheadIndex}

	forged := slices.Clone(sealed)
	forged[rand.IntN(len(forged))] ^= 1 << rand.IntN(8)
	_, verdict := r.Open(r, a, forged, aad)
	require.EqualValues(r, 1, verdict, "packet %#x, %d bytes", word, n)
	ahead = r.counted(countAhead, countComputed)

	got, verdict := r.Open(r, a, sealed, aad)
	require.Zero(r, verdict, "packet %#x, %d bytes", word, n)
	require.Equal(r, plaintext, got)
	require.Equal(r, ahead, r.counted(countAhead, countComputed))
	return ahead
}

// counted reports whether the first reason was counted since the last look, and not the second.
func (r *aheadRig) counted(yes, no bpf.Reason) bool {
	r.Helper()
	since := func(reason bpf.Reason) uint64 {
		var perCPU []uint64
		require.NoError(r, r.Reasons.Lookup(uint32(reason), &perCPU))
		sum, before := uint64(0), r.counts[reason]
		for _, n := range perCPU {
			sum += n
		}
		r.counts[reason] = sum
		return sum - before
	}
	n := since(yes)
	require.EqualValues(r, 1, n+since(no))
	return n == 1
}

// fill puts the first n bytes of a packet's key stream into its slot.
func (r *aheadRig) fill(word uint64, n int) *bpf.KeyStream {
	slot := &r.ahead.ring[word%ringLen]
	r.ahead.keys[word>>claim.GenerationShift].fill(slot, word&claim.NumberMask, n)
	slot.Word = word
	return slot
}

// TestSealAhead seals packets of every length with key streams that were made ahead, and uses none of them twice.
func TestSealAhead(t *testing.T) {
	r := newSealingRig(t)
	for n := 1; n <= 1500; n++ {
		word := rand.Uint64N(2)<<claim.GenerationShift | rand.Uint64N(1<<40)
		slot := r.fill(word, min(n, maxKeyStream))
		require.Equal(t, n <= maxKeyStream, r.sealed(word, n), "%d bytes", n)
		if n > len(slot.Stream)*8 {
			continue // it cannot be that much, so the slot was not looked at
		}
		require.Equal(t, slotFree, slot.Word)
		require.EqualValues(t, n, slot.Used)
		require.False(t, r.sealed(word, n), "a second time")
	}
}

// TestOpenAhead opens packets of every length with key streams that were made ahead, and uses none of them twice. A
// forged packet does not use the key stream up.
func TestOpenAhead(t *testing.T) {
	r := newOpeningRig(t)
	for n := 1; n <= 1500; n++ {
		word := rand.Uint64N(2)<<claim.GenerationShift | rand.Uint64N(1<<40)
		slot := r.fill(word, min(n, maxKeyStream))
		require.Equal(t, n <= maxKeyStream, r.opened(word, n), "%d bytes", n)
		require.Equal(t, slotFree, slot.Word)
		require.EqualValues(t, n, slot.Used)
		require.False(t, r.opened(word, n), "a second time")
	}
	for _, word := range []uint64{2000 + ringLen, 1<<claim.GenerationShift | 2000, slotFree, slotTaken} {
		slot := r.fill(2000, 200)
		slot.Word = word
		require.False(t, r.opened(2000, 200))
		require.Equal(t, word, slot.Word)
	}
}

// TestSealComputed puts key streams into the ring that are not the packet's.
func TestSealComputed(t *testing.T) {
	r := newSealingRig(t)
	require.False(t, r.sealed(0, 100), "new memory has no key stream of packet 0")
	const number = 1000
	for name, word := range map[string]uint64{
		"another packet":     number + ringLen,
		"an earlier packet":  number - ringLen,
		"another generation": 1<<claim.GenerationShift | number,
		"no packet":          slotFree,
		"in use":             slotTaken,
	} {
		slot := r.fill(number, 200)
		slot.Word = word
		require.False(t, r.sealed(number, 200), name)
		require.Equal(t, word, slot.Word, name)
	}
	slot := r.fill(number, 192)
	require.False(t, r.sealed(number, firstRun+1), "too short")
	require.EqualValues(t, firstRun+1, slot.Used, "so that enough is made next time")
}

// TestSealRaces runs the program while its ring is refilled, half of the time by a goroutine that believes that the
// packet was sent.
func TestSealRaces(t *testing.T) {
	const packets = 2000
	r := newSealingRig(t)
	var current atomic.Uint64
	done := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer close(done)
	running.Go(func() {
		random, sent := rand.New(rand.NewPCG(1, 0)), uint64(0)
		for {
			select {
			case <-done:
				return
			default:
			}
			word := current.Load()
			r.ahead.made = 0
			if random.IntN(2) == 0 {
				word += 1 + random.Uint64N(ringLen)
			}
			sent += packets
			r.ahead.look(word, sent)
			r.ahead.refill(maxRefill)
		}
	})
	ahead := 0
	for i := range uint64(packets) {
		word := i/(packets/2)<<claim.GenerationShift | i
		current.Store(word)
		if r.sealed(word, 1000+int(i)%400) {
			ahead++
		}
	}
	t.Logf("%d of %d packets were sealed with key streams from the ring", ahead, packets)
	require.NotZero(t, ahead)
}

// TestRefill checks which key streams are made.
func TestRefill(t *testing.T) {
	a := lookahead{ring: make([]bpf.KeyStream, ringLen)}
	a.setKeys(0, (*claim.PacketKeys)(randomPacketKeys()))
	full := func() (n int) {
		for i := range a.ring {
			if a.ring[i].Len > 0 {
				n++
			}
		}
		return n
	}
	a.look(100, 0)
	a.refill(maxRefill)
	require.Zero(t, full(), "user space sends")
	a.look(110, 10)
	for i := range 2 * ringLen / maxRefill {
		a.refill(maxRefill)
		require.EqualValues(t, min((i+1)*maxRefill, ringLen), full())
	}
	for n := uint64(110); n < 110+ringLen; n++ {
		require.Equal(t, n, a.ring[n%ringLen].Word)
		require.EqualValues(t, maxKeyStream, a.ring[n%ringLen].Len)
	}

	// Of the numbers that follow the kernel uses too few.
	for n := uint64(110); n < 112; n++ {
		a.ring[n%ringLen].Word, a.ring[n%ringLen].Used = slotFree, 300
	}
	a.look(120, 12)
	a.refill(maxRefill)
	require.EqualValues(t, 110+ringLen, a.made)

	// Now it uses enough, but is still busy with one of them.
	slow := &a.ring[(110+ringLen)%ringLen]
	slow.Word = slotTaken
	a.look(123, 13)
	a.refill(maxRefill)
	require.EqualValues(t, 123+ringLen, a.made)
	require.Equal(t, uint64(slotTaken), slow.Word)
	require.EqualValues(t, firstRun, a.ring[(122+ringLen)%ringLen].Len, "what is used lately, in whole runs")

	// Key streams of another key generation are useless.
	a.setKeys(1, (*claim.PacketKeys)(randomPacketKeys()))
	a.look(1<<claim.GenerationShift|123, 13)
	a.refill(maxRefill)
	require.EqualValues(t, 1<<claim.GenerationShift|123, a.ring[123%ringLen].Word)
	require.NotNil(t, a.keys[0], "the kernel may be sealing a packet of that generation")
	a.setKeys(2, (*claim.PacketKeys)(randomPacketKeys()))
	require.Nil(t, a.keys[0])

	made := a.made
	a.look(1<<claim.GenerationShift|133, 13)
	a.refill(maxRefill)
	require.Equal(t, made, a.made, "the kernel has stopped")
	a.erase()
	a.look(1<<claim.GenerationShift|134, 14)
	a.refill(maxRefill)
	require.Equal(t, made, a.made, "there are no keys")
}

// TestRingsFollowUse gives memory to a connection that the kernel sends to, and takes it away, erased, when the kernel
// stops sending or the connection ends.
func TestRingsFollowUse(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	s := r.subscribers[0]
	rings := func() int { return lentBy(t, r.ingress.Lookaheads) }
	require.Zero(t, rings())
	for _, end := range []func(*conn){
		func(c *conn) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.sealing.idle = idleRing
		},
		(*conn).Close,
	} {
		c := r.lookAhead(s)
		require.Equal(t, 1, rings())
		var id ebpf.MapID
		require.NoError(t, r.ingress.Lookaheads.Lookup(c.sealing.index, &id))
		m, err := ebpf.NewMapFromID(id)
		require.NoError(t, err)
		size := int(m.MaxEntries() * m.ValueSize())
		mapped, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ, unix.MAP_SHARED)
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Munmap(mapped)); require.NoError(t, m.Close()) }()
		ring := unsafe.Slice((*bpf.KeyStream)(unsafe.Pointer(&mapped[0])), m.MaxEntries())
		require.Equal(t, r.kernel.conns[s.index].NextPn, ring[r.kernel.conns[s.index].NextPn%ringLen].Word)
		end(c)
		require.Eventually(t, func() bool { return rings() == 0 }, time.Minute, time.Millisecond)
		require.Eventually(t, func() bool { return string(mapped) == string(make([]byte, len(mapped))) },
			time.Minute, time.Millisecond,
			"nothing is left")
	}
}

// TestPublisherKeyStreams opens the packets of a publisher with key streams that were made when packets before them
// came, also after a key update, and takes the ring away when the connection ends.
func TestPublisherKeyStreams(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	s, keys := r.subscribers[0], [2]*claim.PacketKeys{r.keys, randomPacketKeys()}
	keys[1].HeaderProtection = keys[0].HeaderProtection // RFC 9001 §6.1
	header := subgroupHeader(77, 1, 1, 9)
	r.publish(stream(3, 0, 0, header))
	r.receive(s)
	offset := uint64(len(header))
	forward := func(phase, packets int) (ahead uint64) {
		before, err := r.Counts()
		require.NoError(t, err)
		for range packets {
			body := bpftest.RandomBytes(1000 + rand.IntN(300)) // so that none is longer than the recently used
			r.publishPacket(packet(keys[phase], publisherCID, r.nextPN, 4, phase, stream(3, offset, 0, body)))
			r.nextPN++
			offset += uint64(len(body))
			require.Equal(t, body, r.receive(s).data)
		}
		after, err := r.Counts()
		require.NoError(t, err)
		require.EqualValues(t, packets, after["packet_opened"]-before["packet_opened"])
		return after["open_ahead"] - before["open_ahead"]
	}
	require.Zero(t, forward(0, 3))
	c := r.openAhead()
	require.Equal(t, 1, lentBy(t, r.ingress.Lookaheads))
	received := func() { c.Received(int64(r.nextPN) - 1) }
	received()
	require.EqualValues(t, ringLen, forward(0, int(ringLen)+1))
	received()
	require.EqualValues(t, ringLen/2, forward(0, int(ringLen/2)))
	received() // half of them are left: now the next half is made
	require.EqualValues(t, ringLen, forward(0, int(ringLen)))

	c.ReadKeys(1, (*claim.PacketKeys)(keys[1]))
	r.nextPN += 1000
	r.publishPacket(packet(keys[1], publisherCID, r.nextPN, 4, 1, stream(3, offset, 0, []byte("first"))))
	require.EqualValues(t, 1, r.counts()["packet_no_key"], "user space has not received it")
	r.nextPN++
	received()
	require.EqualValues(t, r.nextPN, r.kernel.publishers[c.index].ExpectedPn, "the programs do not know of its number")
	require.EqualValues(t, 10, forward(1, 10))

	c.Close()
	require.Eventually(t, func() bool { return lentBy(t, r.ingress.Lookaheads) == 0 }, time.Minute, time.Millisecond)
}
