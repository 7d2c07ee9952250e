package fastpath_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath"
	"sluice/fastpath/bpf/bpftest"
	"sluice/lab/sim/programs"
	"sluice/moqt"
	"sluice/transport"
)

// The addresses of the relay, the publisher and the subscriber.
var (
	replayRelay      = netip.MustParseAddrPort("10.0.0.1:4443")
	replayPublisher  = netip.MustParseAddrPort("10.0.0.2:5000")
	replaySubscriber = netip.MustParseAddrPort("10.0.0.3:6000")
	replayID         = bytes.Repeat([]byte{7}, transport.ConnectionIDLength)
)

// replayed is a fast path with a publisher and a subscriber.
type replayed struct {
	*fastpath.FastPath
	publisher, subscriber claim.ForwarderConn
	track                 *fastpath.ForwardedTrack
	state                 *claim.ConnState
	run                   func(packet []byte) (sealed []byte) // runs server_ingress
	last                  map[string]uint64                   // counts
	abandoned             atomic.Int32                        // streams
	log                   bytes.Buffer
}

// serve connects both.
func (r *replayed) serve(t *testing.T, open, seal *claim.PacketKeys) {
	abandon := func(*claim.StreamState) { r.abandoned.Add(1) }
	publisher, _ := r.Connect(abandon)
	publisher.ReadKeys(0, open)
	publisher.ConnectionID(replayID, true)
	publisher.SetSession(claim.Session{Layout: moqt.DataLayout1, DatagramPrefix: []byte{1}})
	publisher.SetPath(claim.Path{Local: replayRelay, Remote: replayPublisher, DestConnID: []byte("p")})

	subscriber, state := r.Connect(abandon)
	r.state = state
	claim.Ledger(subscriber.Ledger()).Clear()
	r.state.NextUni.Store(3)
	subscriber.WriteKeys(0, seal)
	subscriber.SetSession(claim.Session{
		Layout: moqt.DataLayout1, StreamPrefix: []byte{0x40, 0x54, 4}, DatagramPrefix: []byte{1},
	})
	subscriber.SetPath(claim.Path{
		Local: replayRelay, Remote: replaySubscriber, DestConnID: []byte("subscriber"), MaxStreamData: 600,
		MaxDatagramFrame: 500,
	})
	track := r.NewTrack()
	r.publisher, r.subscriber, r.track = publisher, subscriber, track
	track.Forward(publisher, 77, 100, []fastpath.Subscriber{{
		Conn: subscriber, Alias: 1 << 40, Forward: true, Priority: 128,
		Range: moqt.Range{Start: moqt.Location{Group: 2}, End: moqt.Location{Group: 60, Object: 1 << 60}},
	}})
	t.Cleanup(func() {
		track.Close()
		subscriber.Close()
		publisher.Close()
		require.NoError(t, r.Close())
	})
}

// counted returns how much each counter has grown since the last call. A copy of the kernel's is always lost here.
// Packets are opened and sealed with key streams that were made ahead, or not, as time allows.
func (r *replayed) counted(t *testing.T) map[string]uint64 {
	counts, err := r.Counts()
	require.NoError(t, err)
	counts["copy_sent"] += counts["copy_lost"]
	maps.DeleteFunc(counts, func(reason string, _ uint64) bool {
		return reason == "copy_lost" || strings.HasPrefix(reason, "open_") || strings.HasPrefix(reason, "seal_")
	})
	since := maps.Clone(counts)
	for reason, n := range r.last {
		since[reason] -= n
	}
	r.last = counts
	maps.DeleteFunc(since, func(_ string, n uint64) bool { return n == 0 })
	return since
}

// words are the state that both senders share.
func (r *replayed) words() [7]uint64 {
	s := r.state
	return [...]uint64{
		s.NextPN.Load(), s.InFlight.Load(), s.DataSent.Load(), s.NextUni.Load(), uint64(s.Writers.Load()),
		uint64(s.Slots.Load()), s.LimitedTo.Load(),
	}
}

// TestSimulatedPrograms compares the programs of simulations with the kernel's. A trace of packets, with faults of
// packets, frames, streams and credit, leads to the same verdicts, and to the same bytes of copies. No stream takes an
// id before its first packet may go. From half of the trace on, some subgroups may be forgotten.
func TestSimulatedPrograms(t *testing.T) {
	kernel, err := fastpath.New(fastpath.Settings{
		Port: replayRelay.Port(), ConnectionIDLen: transport.ConnectionIDLength, MaxCopies: 8, MaxSubgroups: 500,
	}, slog.Default())
	bpftest.RequireKernel(t, err)
	real := &replayed{FastPath: kernel}
	real.run = func(p []byte) []byte {
		frame := append(make([]byte, 12), fastpath.UDPFrame(replayPublisher, replayRelay, p)...)
		return real.Replay(t, frame, replayRelay, replaySubscriber)
	}
	var sent []byte
	k := programs.New(1, programs.Habits{Budget: 8, Slots: 480}, func(to netip.AddrPort, b []byte) {
		require.Equal(t, replaySubscriber, to)
		sent = b
	})
	k.Sent(replaySubscriber)
	simulated := &replayed{}
	simulated.FastPath, err = k.Open(nil, slog.Default())
	require.NoError(t, err)
	simulated.run = func(p []byte) []byte {
		sent = nil
		done := make(chan struct{})
		k.Receive(replayPublisher, p, func() { close(done) })
		<-done
		return sent
	}
	tr := newTrace()
	for _, r := range []*replayed{real, simulated} {
		r.serve(t, &tr.open, &tr.seal)
		fastpath.StopReclaimer(t, r.FastPath) // it would end streams that user space does not read
	}
	seen := make(map[string]uint64)
	for i := range 1000 {
		p, change := tr.next()
		for _, r := range []*replayed{real, simulated} {
			change(r.state)
			if i == 500 {
				r.track.Raise(r.publisher, 20, 7)
			}
		}
		ids := real.state.NextUni.Load()
		copied, same := real.run(p), simulated.run(p)
		counts := real.counted(t)
		taken := (real.state.NextUni.Load() - ids) / 4
		require.LessOrEqual(t, taken, counts["copy_sent"], "packet %d takes an id for nothing", i)
		require.Equal(t, counts, simulated.counted(t), "packet %d", i)
		require.Equal(t, copied, same, "packet %d", i)
		require.Equal(t, real.words(), simulated.words(), "packet %d", i)
		for reason, n := range counts {
			seen[reason] += n
		}
	}
	require.Zero(t, real.abandoned.Load()+simulated.abandoned.Load())
	t.Log(seen)
	for _, reason := range []string{
		"packet_opened", "packet_long_header", "packet_too_short", "packet_forged", "packet_replayed", "packet_old",
		"packet_malformed", "packet_unknown_frame", "packet_not_media", "frame_forwarded", "frame_not_media",
		"frame_no_track", "frame_empty", "frame_claimed", "copy_sent", "copy_not_open", "copy_filtered",
		"copy_out_of_order", "copy_priority", "copy_stream_limit", "copy_stream_credit", "copy_connection_credit",
		"copy_window", "copy_paced", "copy_too_large",
	} {
		require.NotZero(t, seen[reason], reason)
	}
}

// TestLostBehindTheKernel loses the packet with the beginning of a stream when the kernel has forwarded it, and user
// space gets it later: then it goes on with the kernel's stream. If it does not come, the stream is abandoned, and the
// log says so.
func TestLostBehindTheKernel(t *testing.T) {
	for after, adopts := range map[time.Duration]bool{9 * time.Second: true, 15 * time.Second: false} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, h, length := lose(t, 3)
				time.Sleep(after)
				synctest.Wait()
				end := r.track.Receive(r.publisher, 3, h, 100, length)
				_, adopted := r.subscriber.OpenStream(&claim.PublisherStream{Conn: r.publisher, StreamID: 3})
				require.Equal(t, adopts, adopted)
				require.Equal(t, adopts, r.abandoned.Load() == 0)
				require.Equal(t, adopts, !strings.Contains(r.log.String(), unread))
				end()
				time.Sleep(time.Minute)
				there, counted := r.Ended()
				require.Equal(t, there, counted)
			})
		})
	}
	t.Run("the publisher ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, _, _ := lose(t, 3)
			r.publisher.Close()
			time.Sleep(time.Second)
			synctest.Wait()
			require.Contains(t, r.log.String(), unread)
		})
	})
}

// unread is how the log tells of the stream that lose loses: its object is six bytes long.
const unread = "Group:5 Subgroup:0 Sent:6}"

// lose has the kernel forward the packet with the beginning of a stream, and loses it then. The header of the stream
// has that length.
func lose(t *testing.T, stream uint64) (r *replayed, h moqt.SubgroupHeader, length int64) {
	k := programs.New(1, programs.Habits{Budget: 8, Slots: 480}, func(netip.AddrPort, []byte) {})
	k.Sent(replaySubscriber)
	r = new(replayed)
	fast, err := k.Open(nil, slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	require.NoError(t, err)
	tr := newTrace()
	r.FastPath = fast
	r.serve(t, &tr.open, &tr.seal)
	unlimit(r.state)
	h = moqt.SubgroupHeader{TrackAlias: 77, GroupID: 5}
	header := bpftest.Concat(0x10, bpftest.VI64(h.TrackAlias), bpftest.VI64(h.GroupID), 100)
	frame := bpftest.Stream(stream, 0, 0, append(header, "object"...))
	k.Receive(replayPublisher, fastpath.Packet(&tr.open, replayID, 0, frame), func() {})
	synctest.Wait()
	return r, h, int64(len(header))
}

// TestGoesOnWhileRead has the kernel go on with a stream that it has not seen the beginning of: while user space reads
// the stream, and at no other time, as nobody would have the kernel forget it.
func TestGoesOnWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h, length := lose(t, 3)
		another := r.NewTrack() // the kernel does not forward it: only GoOn makes its streams known
		const stream = 11
		goOn := func() (knows bool) {
			another.GoOn(r.publisher, stream, h, 0, 100, length)
			return r.Knows(r.publisher, stream)
		}
		require.False(t, goOn())
		end := another.Receive(r.publisher, stream, h, 100, length)
		require.False(t, r.Knows(r.publisher, stream))
		require.True(t, goOn())
		end()
		time.Sleep(time.Second) // the reclaimer waits for runs
		require.False(t, r.Knows(r.publisher, stream))
		require.False(t, goOn())
		r.publisher.Close()
		require.False(t, goOn())
	})
}

// TestFirstStreamIsLate loses the packet with the beginning of a stream when the kernel has forwarded it. Another
// stream of the subgroup, and another publisher, wait until user space reads the first one, or that does not come any
// more.
func TestFirstStreamIsLate(t *testing.T) {
	for name, wait := range map[string]func(r *replayed, read func(stream int64) (end func())){
		"comes": func(r *replayed, read func(int64) func()) {
			end := read(3)
			synctest.Wait()
			end()
		},
		"does not come":      func(*replayed, func(int64) func()) { time.Sleep(15 * time.Second) },
		"the publisher ends": func(r *replayed, _ func(int64) func()) { r.publisher.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, h, length := lose(t, 3)
				read := func(stream int64) (end func()) { return r.track.Receive(r.publisher, stream, h, 100, length) }
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				var goOn atomic.Int32
				go func() {
					r.track.AwaitRead(ctx, r.publisher, []claim.ForwarderConn{r.subscriber})
					goOn.Add(1)
				}()
				go func() {
					defer read(7)()
					goOn.Add(1)
				}()
				synctest.Wait()
				require.Zero(t, goOn.Load())
				wait(r, read)
				synctest.Wait()
				require.EqualValues(t, 2, goOn.Load())
			})
		})
	}
}

// TestNobodyWantsTheFirstStream loses the packet with the beginning of a stream when the kernel has forwarded it.
// Nobody waits for a stream of another track, or of a subscriber that has left.
func TestNobodyWantsTheFirstStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := lose(t, 3)
		another := r.NewTrack()
		defer another.Close()
		begin := time.Now()
		r.track.AwaitRead(t.Context(), r.publisher, nil)
		another.AwaitRead(t.Context(), r.publisher, []claim.ForwarderConn{r.subscriber})
		require.Equal(t, begin, time.Now())
	})
}

// trace makes packets of a publisher.
type trace struct {
	rng        *rand.Rand
	open, seal claim.PacketKeys
	number     uint64
	stream     uint64
	at         map[uint64]uint64 // where streams go on
	last       []byte
	objects    uint64 // in datagrams, so far
}

func newTrace() *trace {
	tr := &trace{rng: rand.New(rand.NewPCG(1, 2)), stream: 2, at: make(map[uint64]uint64)}
	for _, k := range []*claim.PacketKeys{&tr.open, &tr.seal} {
		for _, b := range [][]byte{k.Key[:], k.HeaderProtection[:], k.IV[:]} {
			for i := range b {
				b[i] = byte(tr.rng.Uint32())
			}
		}
	}
	return tr
}

// next returns the next packet, and the changes before it.
func (tr *trace) next() (packet []byte, change func(*claim.ConnState)) {
	change = tr.change()
	if len(tr.last) > 0 && tr.rng.IntN(20) == 0 {
		return tr.last, change
	}
	var frames []byte
	for range 1 + tr.rng.IntN(3) {
		f, media := tr.frame()
		if frames = append(frames, f...); media {
			break // with the first copy, which is lost, the kernel forgets where the subscriber is
		}
	}
	number := tr.number
	if tr.number++; tr.rng.IntN(40) == 0 {
		tr.number += uint64(tr.rng.IntN(3000))
	}
	if number > 2000 && tr.rng.IntN(30) == 0 {
		number -= 1100
	}
	p := fastpath.Packet(&tr.open, replayID, number, frames)
	switch tr.rng.IntN(40) {
	case 0:
		p[tr.rng.IntN(len(p))] ^= 1 << tr.rng.IntN(8)
	case 1:
		p = p[:tr.rng.IntN(len(p))+1]
	case 2:
		p[0] |= 0x80 // a long header
	}
	tr.last = p
	return p, change
}

// change sets limits, which mostly allow everything.
func (tr *trace) change() func(*claim.ConnState) {
	which, small := tr.rng.IntN(16), uint64(tr.rng.IntN(1000))
	return func(s *claim.ConnState) {
		unlimit(s)
		switch which {
		case 0:
			s.Window.Store(s.InFlight.Load() + small)
		case 1:
			s.DataLimit.Store(s.DataSent.Load() + small)
		case 2:
			s.MaxUni.Store(0)
		case 3:
			s.MTU.Store(uint32(small))
		case 4:
			s.Threshold.Store(128<<8 | uint32(small)%256)
		case 5:
			s.PaceWaits.Store(1)
		}
	}
}

func unlimit(s *claim.ConnState) {
	s.Window.Store(1 << 40)
	s.DataLimit.Store(1 << 40)
	s.MaxUni.Store(1 << 40)
	s.LedgerLow.Store(s.NextPN.Load())
	s.MTU.Store(1500)
	s.Threshold.Store(1 << 16)
	s.PaceWaits.Store(0)
}

// frame returns a frame, or a few bytes, and whether it may be media.
func (tr *trace) frame() (f []byte, media bool) {
	switch n := tr.rng.IntN(30); {
	case n < 8:
		return tr.other(n)
	case n < 14:
		return tr.begin(), true
	case n < 20:
		return tr.object(), true
	}
	return tr.goOn(), true
}

// object returns an object in a datagram, which may have come before, or something like it.
func (tr *trace) object() []byte {
	rng := tr.rng
	kind, alias := rng.IntN(0x10), uint64(77)
	if rng.IntN(12) == 0 {
		kind, alias = rng.IntN(0x100), 77+rng.Uint64N(2)
	}
	tr.objects++
	id := tr.objects - rng.Uint64N(2)*rng.Uint64N(8)
	b := bpftest.Concat(uint64(1), kind, bpftest.VI64(alias), bpftest.VI64(uint64(rng.IntN(70))))
	if kind&4 == 0 {
		b = append(b, bpftest.VI64(id)...)
	}
	if kind&8 == 0 {
		b = append(b, byte(rng.IntN(256)))
	}
	if kind&1 != 0 {
		n := rng.IntN(4)
		b = append(append(b, byte(n)), make([]byte, n)...)
	}
	b = append(b, make([]byte, rng.IntN(600)*min(1, rng.IntN(8)))...)
	if rng.IntN(20) == 0 {
		b = b[:rng.IntN(len(b))]
	}
	if rng.IntN(2) == 0 {
		return append([]byte{0x30}, b...)
	}
	return bpftest.Concat(0x31, uint64(len(b)), b)
}

// other returns a frame that is no media, or hardly.
func (tr *trace) other(n int) (f []byte, media bool) {
	rng := tr.rng
	switch n {
	case 0:
		return make([]byte, 1+rng.IntN(80)), false // PADDING
	case 1: // ACK with ranges, with or without ECN counts
		return bpftest.Concat(2, uint64(100), uint64(1), uint64(1), uint64(3), uint64(1), uint64(2)), false
	case 2:
		return bpftest.Concat(3, uint64(1<<20), uint64(1), uint64(0), uint64(3), uint64(1), uint64(2), uint64(3)), false
	case 3:
		return bpftest.Concat(0x11, uint64(3), uint64(1<<33)), false // MAX_STREAM_DATA
	case 4:
		return bpftest.Concat(0x18, uint64(5), uint64(0), 4, make([]byte, 20)), false // NEW_CONNECTION_ID
	case 5:
		return bpftest.Concat(0x40, 0xaf, uint64(1), uint64(2), uint64(3), uint64(4)), false // ACK_FREQUENCY
	case 6:
		types := []int{0x01, 0x05, 0x09, 0x0e, 0x18, 0x1a, 0x1c, 0x20, 0x24, 0x3f, 0x40, 0x80}
		return bpftest.Concat(types[rng.IntN(len(types))]), true
	}
	data := make([]byte, rng.IntN(50))
	return bpftest.Stream(uint64(rng.IntN(400)), uint64(rng.IntN(3))*100, rng.IntN(2), data), true
}

// begin begins a stream with a header of some kind.
func (tr *trace) begin() []byte {
	rng := tr.rng
	tr.stream += 4
	kind, alias := 0x10|rng.IntN(0x70), uint64(77)
	if rng.IntN(10) == 0 {
		alias = 78
	}
	header := bpftest.Concat(kind, bpftest.VI64(alias), bpftest.VI64(uint64(rng.IntN(70))))
	if kind&6 == 4 {
		header = append(header, bpftest.VI64(rng.Uint64()>>rng.IntN(64))...)
	}
	if kind&0x20 == 0 {
		header = append(header, byte(rng.IntN(256)))
	}
	if rng.IntN(8) == 0 {
		header = append(bpftest.Concat(0x40, 0x54, uint64(rng.IntN(70))), header...)
	}
	data := append(header, make([]byte, rng.IntN(300)*min(1, rng.IntN(6)))...)
	for i := range data[len(header):] {
		data[len(header)+i] = byte(rng.Uint32())
	}
	if rng.IntN(20) == 0 {
		data = data[:rng.IntN(len(data))]
	}
	tr.at[tr.stream] = uint64(len(data))
	return bpftest.Stream(tr.stream, 0, oneIn(rng, 10), data)
}

// goOn goes on with one of the latest streams, sometimes with a gap, or again.
func (tr *trace) goOn() []byte {
	rng := tr.rng
	id := max(tr.stream, 22) - 4*uint64(rng.IntN(5))
	data := make([]byte, rng.IntN(400)*min(1, rng.IntN(8)))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	at := tr.at[id]
	switch rng.IntN(16) {
	case 0:
		at += uint64(rng.IntN(1 << 16))
	case 1:
		at -= min(at, 100)
	default:
		tr.at[id] += uint64(len(data))
	}
	return bpftest.Stream(id, at, oneIn(rng, 12), data)
}

func oneIn(rng *rand.Rand, n int) int {
	if rng.IntN(n) == 0 {
		return 1
	}
	return 0
}
