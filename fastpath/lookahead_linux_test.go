package fastpath

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
	"sluice/internal/lab"
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
		return c.ahead.ring != nil
	}, 20*time.Second, time.Millisecond)
	for range ringLen / maxRefill {
		c.Acknowledged()
	}
	return c
}

// aheadRig is the programs' cryptography, with a ring for a connection.
type aheadRig struct {
	*bpftest.Crypto
	testing.TB
	keys   bpftest.CryptoPacketKeys // of generation 0
	ahead  lookahead
	counts [2]uint64 // of packets so far whose key streams were computed, and made ahead
}

const aheadIndex = 1

func newAheadRig(t testing.TB) *aheadRig {
	r := &aheadRig{Crypto: bpftest.NewCrypto(t), TB: t, keys: bpftest.RandomKeys()}
	spec, err := bpftest.LoadCrypto()
	require.NoError(t, err)
	rings := newLent[bpf.KeyStream](r.Lookaheads, spec.Maps[bpftest.CryptoMapLookaheads].InnerMap)
	require.NoError(t, rings.lend(aheadIndex))
	t.Cleanup(func() { require.NoError(t, rings.close()) })
	r.ahead.ring = rings.of(aheadIndex)
	for generation := range uint64(2) {
		keys, p := r.keysOf(generation), new(claim.PacketKeys)
		copy(p.Key[:], bpftest.Bytes(&keys.Key))
		copy(p.IV[:], bpftest.Bytes(&keys.Iv))
		r.ahead.setKeys(generation, p)
	}
	return r
}

func (r *aheadRig) keysOf(generation uint64) bpftest.CryptoPacketKeys {
	k := r.keys
	k.Key[0] ^= uint32(generation)
	return k
}

// sealed seals n bytes, expects what x/crypto makes of them, and reports whether the program found the key stream in
// the ring.
func (r *aheadRig) sealed(word uint64, n int) (ahead bool) {
	r.Helper()
	keys := r.keysOf(word >> claim.GenerationShift)
	plaintext, aad := bpftest.RandomBytes(n), bpftest.RandomBytes(2+rand.IntN(24))
	got := r.Seal(r, bpftest.CryptoCryptoArgs{Keys: keys, Pn: word, Connection: aheadIndex}, plaintext, aad)
	require.Equal(r, bpftest.Reference(r, &keys, word&claim.NumberMask, plaintext, aad), got, "packet %#x, %d bytes",
		word, n)

	var counts [2]uint64
	for i, reason := range []bpf.Reason{bpf.IngressReasonSEAL_COMPUTED, bpf.IngressReasonSEAL_AHEAD} {
		var perCPU []uint64
		require.NoError(r, r.Reasons.Lookup(uint32(reason), &perCPU))
		for _, n := range perCPU {
			counts[i] += n
		}
	}
	require.Equal(r, r.counts[0]+r.counts[1]+1, counts[0]+counts[1])
	ahead = counts[1] > r.counts[1]
	r.counts = counts
	return ahead
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
	r := newAheadRig(t)
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

// TestSealComputed puts key streams into the ring that are not the packet's.
func TestSealComputed(t *testing.T) {
	r := newAheadRig(t)
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
	const packets = 6000
	r := newAheadRig(t)
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
			r.ahead.refill()
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
	a.refill()
	require.Zero(t, full(), "user space sends")
	a.look(110, 10)
	for i := range 2 * ringLen / maxRefill {
		a.refill()
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
	a.refill()
	require.EqualValues(t, 110+ringLen, a.made)

	// Now it uses enough, but is still busy with one of them.
	slow := &a.ring[(110+ringLen)%ringLen]
	slow.Word = slotTaken
	a.look(123, 13)
	a.refill()
	require.EqualValues(t, 123+ringLen, a.made)
	require.Equal(t, uint64(slotTaken), slow.Word)
	require.EqualValues(t, firstRun, a.ring[(122+ringLen)%ringLen].Len, "what is used lately, in whole runs")

	// Key streams of another key generation are useless.
	a.setKeys(1, (*claim.PacketKeys)(randomPacketKeys()))
	a.look(1<<claim.GenerationShift|123, 13)
	a.refill()
	require.EqualValues(t, 1<<claim.GenerationShift|123, a.ring[123%ringLen].Word)
	require.NotNil(t, a.keys[0], "the kernel may be sealing a packet of that generation")
	a.setKeys(2, (*claim.PacketKeys)(randomPacketKeys()))
	require.Nil(t, a.keys[0])

	made := a.made
	a.look(1<<claim.GenerationShift|133, 13)
	a.refill()
	require.Equal(t, made, a.made, "the kernel has stopped")
	a.erase()
	a.look(1<<claim.GenerationShift|134, 14)
	a.refill()
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
			c.ahead.idle = idleRing
		},
		(*conn).Close,
	} {
		c := r.lookAhead(s)
		require.Equal(t, 1, rings())
		var id ebpf.MapID
		require.NoError(t, r.ingress.Lookaheads.Lookup(s.index, &id))
		m, err := ebpf.NewMapFromID(id)
		require.NoError(t, err)
		ring, mapped, err := mapArray[bpf.KeyStream](m)
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Munmap(mapped)); require.NoError(t, m.Close()) }()
		require.Equal(t, r.kernel.conns[s.index].NextPn, ring[r.kernel.conns[s.index].NextPn%ringLen].Word)
		end(c)
		require.Eventually(t, func() bool { return rings() == 0 }, 20*time.Second, time.Millisecond)
		require.Eventually(t, func() bool { return string(mapped) == string(make([]byte, len(mapped))) },
			20*time.Second, time.Millisecond,
			"nothing is left")
	}
}
