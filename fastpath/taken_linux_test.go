package fastpath

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/lab"
	quicpacket "sluice/internal/packet"
	"sluice/moqt"
)

// takenRig is a connection whose ACKs may be taken. Its peer is the rig's publisher.
type takenRig struct {
	*rig
	conn  *conn
	state *claim.ConnState
	mu    sync.Mutex
	got   []claim.TakenPacket
}

const queueOfTest = 0

func newTakenRig(t testing.TB, v6 bool) *takenRig {
	r := &takenRig{rig: newRig(t, lab.Topology{Subscribers: 1}, v6)}
	r.publishers[publisherIndex].Active = 0
	r.connect()
	return r
}

// connect makes the connection with the publisher's index known. Nothing of it has been taken.
func (r *takenRig) connect() {
	r.mu.Lock()
	r.got = nil
	r.mu.Unlock()
	r.state = &r.fast.states[publisherIndex]
	r.state.NextPN.Store(10_000)
	r.state.Window.Store(1 << 20)
	r.conn = r.fast.Connect(r.state, func(*claim.StreamState) {}).(*conn)
	r.conn.ConnectionID(publisherCID, true)
	r.conn.ReadKeys(0, (*claim.PacketKeys)(r.keys))
	r.conn.SetSession(claim.Session{Layout: moqt.DataLayout1})
	r.conn.TakeAcks(queueOfTest, r.note)
	r.conn.SetPath(claim.Path{Local: r.relayAddr(), Remote: r.publisherAddr()})
	r.conn.SetTaking(true, 0)
}

func (r *takenRig) note(p *claim.TakenPacket) {
	q := *p
	q.Frames = slices.Clone(q.Frames)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, q)
}

// taken hands over, and returns what was taken since the last call. The fast path hands over, too, when it reclaims.
func (r *takenRig) taken() []claim.TakenPacket {
	r.fast.HandOver(queueOfTest)
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// drops runs the program on an Ethernet frame, and reports whether the frame was dropped.
func (r *takenRig) drops(frame []byte) (dropped bool) {
	require.NoError(r.t, r.lab.Relay.Do(func() error {
		verdict, err := r.ingress.ServerIngress.Run(&ebpf.RunOptions{Data: frame})
		dropped = verdict == 2
		return err
	}))
	return dropped
}

// frame is an Ethernet frame with the next packet.
func (r *takenRig) frame(phase int, frames ...[]byte) []byte {
	r.nextPN++
	p := packet(r.keys, publisherCID, r.nextPN-1, 2, phase, slices.Concat(frames...))
	return concat(make([]byte, 12), udpFrame(r.publisherAddr(), r.relayAddr(), p))
}

// ack is an ACK frame for [smallest, largest], with further fields.
func ack(smallest, largest uint64, more ...uint64) []byte {
	b := concat(2, largest, uint64(5), uint64(len(more)/2), largest-smallest)
	for _, v := range more {
		b = append(b, concat(v)...)
	}
	return b
}

// TestAcksAreTaken has each way out for packets of a subscriber. What is dropped is handed over, and nothing else.
func TestAcksAreTaken(t *testing.T) {
	padding := make([]byte, 40)
	ranges := ack(885, 899, 0, 880) // after a gap of two
	for _, v6 := range []bool{false, true} {
		r := newTakenRig(t, v6)
		p := &r.publishers[publisherIndex]
		for _, step := range []struct {
			name, reason string
			phase        int
			frames       []byte
			prepare      func()
		}{
			{name: "first", reason: "ack_of_gap", frames: ack(100, 880)},
			{name: "alone", reason: "ack_taken", frames: ack(100, 881)},
			{name: "with padding", reason: "ack_taken", frames: append(ack(100, 882), padding...)},
			{name: "after padding", reason: "ack_taken", frames: append(padding[:7:7], ack(100, 882)...)},
			{name: "a gap", reason: "ack_of_gap", frames: ranges},
			{name: "the same gap", reason: "ack_taken", frames: ranges},
			{name: "with ECN counts", reason: "ack_taken",
				frames: concat(3, uint64(900), uint64(5), uint64(0), uint64(10), uint64(1), uint64(2), uint64(3))},
			{name: "with PING", reason: "ack_not_alone", frames: append(ack(100, 900), 1)},
			{name: "after PING", reason: "ack_not_alone", frames: append([]byte{1}, ack(100, 900)...)},
			{name: "two", reason: "ack_not_alone", frames: append(ack(100, 900), ack(100, 900)...)},
			{name: "none", reason: "ack_not_alone", frames: padding},
			{name: "with IMMEDIATE_ACK", reason: "ack_not_alone", frames: append(ack(100, 900), 0x1f)},
			{name: "with ACK_FREQUENCY", reason: "ack_not_alone",
				frames: append(ack(100, 900), concat(0xaf, uint64(1), uint64(2), uint64(25_000), uint64(3))...)},
			{name: "with MAX_DATA", reason: "ack_not_alone", frames: append(ack(1, 900), concat(0x10, uint64(1))...)},
			{name: "long", reason: "ack_not_alone", frames: append(ack(100, 900), make([]byte, 400)...)},
			{name: "as long as possible", reason: "ack_taken",
				frames: append(ack(100, 900), make([]byte, 256-len(ack(100, 900)))...)},
			{name: "one byte more", reason: "ack_not_alone",
				frames: append(ack(100, 900), make([]byte, 257-len(ack(100, 900)))...)},
			{name: "unknown frame", reason: "ack_not_alone", frames: append(ack(100, 900), 0x3f)},
			{name: "cut off", reason: "packet_malformed",
				frames: concat(2, uint64(900), uint64(5), uint64(9), uint64(1))},
			{name: "of what was not sent", reason: "ack_unsent", frames: ack(10_000, 10_000)},
			{name: "of the last packet", reason: "ack_taken", frames: ack(100, 9_999)},
			{name: "below 0", reason: "ack_of_gap", frames: concat(2, uint64(5), uint64(5), uint64(0), uint64(6))},
			{name: "of a key phase without a key", reason: "packet_no_key", phase: 1, frames: ack(100, 900)},
			{name: "of another key phase", reason: "ack_other_phase", phase: 1, frames: ack(100, 900), prepare: func() {
				r.conn.ReadKeys(1, (*claim.PacketKeys)(r.keys))
			}},
			{name: "of the new key phase", reason: "ack_taken", phase: 1, frames: ack(100, 900), prepare: func() {
				r.conn.SetTaking(true, 1)
			}},
			{name: "of the old key phase", reason: "ack_other_phase", frames: ack(100, 900)},
			{name: "half a window", reason: "ack_taken", frames: ack(100, 900), prepare: func() {
				r.conn.SetTaking(true, 2)
				r.state.InFlight.Store(1 << 19)
			}},
			{name: "more", reason: "ack_of_window", frames: ack(100, 900), prepare: func() {
				r.state.InFlight.Store(1<<19 + 1)
			}},
			{name: "paused", reason: "ack_paused", frames: ack(100, 900), prepare: func() {
				r.state.InFlight.Store(0)
				r.conn.SetTaking(false, 0)
			}},
			{name: "of a publisher, paused", reason: "packet_opened", frames: ack(100, 900), prepare: func() {
				require.True(t, r.conn.addTrack())
			}},
			{name: "of a publisher", reason: "ack_taken", frames: ack(100, 900), prepare: func() {
				r.conn.SetTaking(true, 0)
			}},
			{name: "of a publisher, with others", reason: "packet_opened", frames: append(ack(100, 900), 1)},
			{name: "of an ended connection", reason: "packet_not_media", frames: ack(100, 900), prepare: r.conn.Close},
		} {
			if step.prepare != nil {
				step.prepare()
			}
			name := fmt.Sprintf("%s, v6=%v", step.name, v6)
			before, err := r.Counts()
			require.NoError(t, err)
			dropped := r.drops(r.frame(step.phase, step.frames))
			after, err := r.Counts()
			require.NoError(t, err)
			require.Greater(t, after[step.reason], before[step.reason], "%s: %v", name, after)
			require.Equal(t, step.reason == "ack_taken", dropped, name)
			var want []claim.TakenPacket
			if dropped {
				want = []claim.TakenPacket{{Number: r.nextPN - 1, Frames: step.frames}}
			}
			got := r.taken()
			for i := range got {
				require.InDelta(t, float64(monotonic()), float64(got[i].Received), float64(time.Minute), "the clock")
				got[i].Received = 0
			}
			require.Equal(t, want, got, name)
			require.Zero(t, p.Waiting, name)
		}
	}
}

// TestOthersAcksAreNotTaken sends ACKs that the stack or QUIC would discard: they all go up.
func TestOthersAcksAreNotTaken(t *testing.T) {
	r := newTakenRig(t, false)
	good := r.frame(0, ack(0, 900))
	damaged := func(at int) []byte {
		f := slices.Clone(good)
		f[at] ^= 1
		return f
	}
	p := packet(r.keys, publisherCID, r.nextPN, 2, 0, ack(0, 900))
	r.nextPN++
	from := func(a netip.AddrPort) []byte { return concat(make([]byte, 12), udpFrame(a, r.relayAddr(), p)) }
	for reason, frame := range map[string][]byte{
		"packet_bad_header": damaged(14 + 10),
		"packet_checksum":   damaged(14 + 20 + 6),
		"packet_forged":     damaged(len(good) - 1),
		"packet_other_path": from(netip.AddrPortFrom(r.publisherAddr().Addr(), r.publisherAddr().Port()^1)),
	} {
		before := r.counts()[reason]
		require.False(t, r.drops(frame), reason)
		require.Equal(t, before+1, r.counts()[reason], "%s: %v", reason, r.counts())
	}
	require.True(t, r.drops(good), "it has not come yet")
	require.True(t, r.drops(from(r.publisherAddr())))
	again := r.frame(0, ack(0, 900))
	require.True(t, r.drops(again))
	for range 3 {
		require.False(t, r.drops(again))
	}
	require.EqualValues(t, 3, r.counts()["packet_replayed"])
	require.Len(t, r.taken(), 3)

	r.conn.SetTaking(false, 0)
	up := r.frame(0, ack(0, 900))
	require.False(t, r.drops(up))
	r.conn.Received(int64(r.nextPN - 1))
	r.conn.SetTaking(true, 0)
	require.False(t, r.drops(up), "quic-go has received it")
	require.EqualValues(t, 1, r.counts()["packet_old"])
	require.True(t, r.drops(r.frame(0, ack(0, 900))))
}

// TestMarksOfTakenPackets sends packets with each ECN mark.
func TestMarksOfTakenPackets(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		r := newTakenRig(t, v6)
		for ecn := range byte(4) {
			f := r.frame(0, ack(0, 900))
			if v6 {
				f[14+1] |= ecn << 4
			} else {
				f[14+1] |= 0xfc | ecn
				copy(f[14+10:], []byte{0, 0})
				copy(f[14+10:], checksum(f[14:34]))
			}
			require.True(t, r.drops(f))
			require.Equal(t, ecn, r.taken()[0].ECN)
		}
	}
}

// TestTakenPacketsDoNotReachTheSocket sends packets over the network.
func TestTakenPacketsDoNotReachTheSocket(t *testing.T) {
	r := newTakenRig(t, false)
	for range 3 {
		p := packet(r.keys, publisherCID, r.nextPN, 4, 0, ack(0, 901))
		_, err := r.rig.publisher.WriteToUDPAddrPort(p, r.relayAddr())
		require.NoError(t, err)
		r.nextPN++
	}
	r.publish(append(ack(0, 901), 1))
	require.Len(t, r.taken(), 3)
}

// TestQueueIsFull takes packets that nobody hands over: the next ones go up. Afterwards packets are taken again.
func TestQueueIsFull(t *testing.T) {
	const share, queue, longest = 64, 1 << 17, 256
	r := newTakenRig(t, false)
	stopReclaimer(t, r.fast) // it hands over, too
	frames := append(ack(0, 900), make([]byte, longest-len(ack(0, 900)))...)
	for range share {
		require.True(t, r.drops(r.frame(0, frames)))
	}
	require.False(t, r.drops(r.frame(0, frames)))
	require.EqualValues(t, 1, r.counts()["ack_share"])
	for n := 0; r.counts()["ack_no_room"] == 0; n++ {
		r.publishers[publisherIndex].Waiting = 0 // as if they were of others
		require.Less(t, n, 20*queue/longest)
		r.drops(r.frame(0, frames))
	}
	const full = queue / (recordHeader + 24 + longest)
	r.publishers[publisherIndex].Waiting = full
	got := r.taken()
	require.Len(t, got, full)
	for _, p := range got {
		require.Equal(t, frames, p.Frames)
	}
	for range 2000 { // around the ring
		require.True(t, r.drops(r.frame(0, frames[:50])))
		require.Equal(t, frames[:50], r.taken()[0].Frames)
	}
}

// TestTakenPacketsOfAnEndedConnection gives the index of a connection to another one. Packets of the first one that
// were not handed over are lost.
func TestTakenPacketsOfAnEndedConnection(t *testing.T) {
	r := newTakenRig(t, false)
	for range 10 {
		require.True(t, r.drops(r.frame(0, ack(0, 900))))
	}
	r.conn.Close()
	require.Eventually(t, func() bool {
		r.fast.registry.mu.Lock()
		defer r.fast.registry.mu.Unlock()
		return slices.Contains(r.fast.registry.ready, publisherIndex)
	}, time.Minute, time.Millisecond)
	r.connect()
	require.Empty(t, r.taken())
	require.Zero(t, r.publishers[publisherIndex].Waiting)
	require.True(t, r.drops(r.frame(0, ack(0, 900))))
	require.Len(t, r.taken(), 1)
}

// TestTakingRaces runs the program on ACKs on all CPUs while user space stops and allows to take them, and hands them
// over. Each packet is either handed over, once, or goes up; and none is taken by a run that begins after user space
// has stopped it, which it does before a packet leaves whose ACK it wants to see.
func TestTakingRaces(t *testing.T) {
	const packets = 3000
	r := newTakenRig(t, false)
	var mu sync.Mutex
	dropped, got := make(map[uint64]bool), make(map[uint64]int)
	run := func() bool {
		mu.Lock()
		number := r.nextPN
		frame := r.frame(0, ack(0, 900))
		mu.Unlock()
		taken := r.drops(frame)
		mu.Lock()
		dropped[number] = taken
		mu.Unlock()
		return taken
	}
	receive := func(p *claim.TakenPacket) { got[p.Number]++ } // with the queue's lock
	r.conn.receive.Store(&receive)
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for range packets {
				run()
			}
		})
	}
	stopped := 0
	for random := rand.New(rand.NewPCG(1, 0)); ; {
		mu.Lock()
		n := len(dropped)
		mu.Unlock()
		if n >= 2*packets {
			break
		}
		r.conn.SetTaking(false, 0)
		require.False(t, run(), "a packet was taken after that was stopped")
		stopped++
		r.conn.SetTaking(true, 0)
		for range random.IntN(4) {
			run()
		}
		if random.IntN(2) == 0 {
			r.fast.HandOver(queueOfTest)
		}
	}
	running.Wait()
	r.fast.HandOver(queueOfTest)
	taken := 0
	for number, was := range dropped {
		want := 0
		if was {
			want, taken = 1, taken+1
		}
		require.Equal(t, want, got[number], "packet %d", number)
	}
	t.Logf("%d of %d packets were taken, taking was stopped %d times", taken, len(dropped), stopped)
	require.NotZero(t, taken)
	require.Len(t, got, taken)
	require.Zero(t, r.publishers[publisherIndex].Waiting)
}

// TestHostileAcks sends authentic packets whose frames are damaged. What is taken has nothing but an ACK and PADDING,
// as far as it is well-formed.
func TestHostileAcks(t *testing.T) {
	r := newTakenRig(t, false)
	seed := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 5000 {
		frames := slices.Concat(
			make([]byte, seed.IntN(3)), ack(885, 899, 0, 80, 1, 70, 3, 4), make([]byte, seed.IntN(30)))
		for range seed.IntN(4) {
			frames[seed.IntN(len(frames))] = byte(seed.Uint32()) & (0xff >> seed.IntN(8))
		}
		r.publishers[publisherIndex].Acked = seed.Uint64N(1000)
		if !r.drops(r.frame(0, frames)) {
			continue
		}
		taken++
		got := r.taken()
		require.Equal(t, frames, got[0].Frames)
		rest := withoutPadding(frames)
		require.Contains(t, []byte{2, 3}, rest[0])
		if rest, err := quicpacket.ParseAck(rest, 3, new(quic.AckInfo)); err == nil {
			require.Empty(t, withoutPadding(rest))
		}
	}
	t.Log(taken)
	require.Greater(t, taken, 200)
}

func withoutPadding(b []byte) []byte {
	for len(b) > 0 && b[0] == 0 {
		b = b[1:]
	}
	return b
}

// BenchmarkAck is the cost of a packet with an ACK that is taken, and of one that is not looked at.
func BenchmarkAck(b *testing.B) {
	for _, on := range []bool{true, false} {
		b.Run(fmt.Sprintf("taken=%v", on), func(b *testing.B) {
			r := newTakenRig(b, false)
			r.conn.SetTaking(on, 0)
			frame := r.frame(0, ack(0, 900))
			var spent time.Duration
			runs := 0
			for b.Loop() {
				r.publishers[publisherIndex].Numbers = bpf.Publisher{}.Numbers
				require.NoError(b, r.lab.Relay.Do(func() error {
					_, d, err := r.ingress.ServerIngress.Benchmark(frame, 1, nil)
					spent += d
					runs++
					return err
				}))
				r.taken()
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(runs), "bpf_ns/op")
		})
	}
}
