package media

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
	"sluice/track"
)

// otherSide is a second sender on the same connection, as the kernel will be: it has its own keys and knows only what
// is shared. It never waits and never repeats: what it cannot send at once it declines.
type otherSide struct {
	arena *sharedArena
	udp   *net.UDPConn
	clock clock.System

	mu       sync.Mutex
	seal     packet.Sealer
	remote   netip.AddrPort
	connID   []byte
	sent     atomic.Int64
	declined atomic.Int64
}

// sharedArena is memory of fixed size, like the kernel's.
type sharedArena struct {
	claim.Heap
	mu      sync.Mutex
	sub     *claim.ConnState
	ring    []claim.Record
	streams []*claim.StreamState
}

func (a *sharedArena) NewConn() *claim.ConnState {
	a.sub = new(claim.ConnState)
	return a.sub
}

func (a *sharedArena) Ledger(_ *claim.ConnState, n int) []claim.Record {
	if a.ring != nil || n > 4096 {
		return nil
	}
	a.ring = make([]claim.Record, 4096)
	return a.ring
}

func (a *sharedArena) NewStream() *claim.StreamState {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.streams = append(a.streams, new(claim.StreamState))
	return a.streams[len(a.streams)-1]
}

// tapped shows keys and paths to the other side too: keys before the sender, which starts the new generation.
type tapped struct {
	*Sender
	other *otherSide
}

func (h tapped) Keys(phase uint64, suite uint16, version uint32, read, write []byte) {
	if write != nil {
		k, err := packet.NewKey(phase, suite, version, write)
		if err != nil {
			panic(err)
		}
		h.other.mu.Lock()
		h.other.seal.Install(phase, k)
		h.other.mu.Unlock()
	}
	h.Sender.Keys(phase, suite, version, read, write)
}

func (h tapped) Path(p quic.PathInfo) {
	h.other.mu.Lock()
	h.other.remote = p.Remote.(*net.UDPAddr).AddrPort()
	h.other.connID = p.DestConnID.Bytes()
	h.other.mu.Unlock()
	h.Sender.Path(p)
}

// forward sends the bytes p, which are the log's from an offset on, unless something is in the way.
func (o *otherSide) forward(st *claim.StreamState, offset int64, p []byte, last bool) bool {
	ok := o.try(st, offset, p, last)
	if ok {
		o.sent.Add(1)
	} else {
		o.declined.Add(1)
	}
	return ok
}

func (o *otherSide) try(st *claim.StreamState, offset int64, p []byte, last bool) bool {
	s := o.arena.sub
	mtu := int(s.MTU.Load())
	next, closed := st.Cursor()
	if mtu == 0 || closed || next != offset || st.Phase.Load() != claim.StreamOpen || st.Level.Load() > s.Threshold.Load() {
		return false
	}
	id, at, n := int64(st.ID.Load()), offset+st.Shift(), int64(len(p))
	o.mu.Lock()
	overhead := 1 + len(o.connID) + packet.NumberLength + packet.StreamHeaderLength(id, at) + packet.TagLength
	o.mu.Unlock()
	ledger := claim.Ledger(o.arena.ring)
	if overhead+len(p) > mtu || at+n > int64(st.Limit.Load()) || !s.Fits(overhead+len(p)) || !s.Room(ledger) {
		return false
	}
	number, generation, ok := s.Begin(ledger)
	if !ok {
		return false
	}
	if n > 0 && s.TakeData(n, true, 0) == 0 {
		s.Abort()
		return false
	}
	if !st.Claim(offset, offset+n, last) {
		s.ReturnData(n)
		s.Abort()
		return false
	}
	flags := uint8(claim.KindStream)
	if last {
		flags |= claim.FlagFIN
	}
	s.Commit(ledger, number, o.clock.Now(), at, claim.NewInfo(uint32(id/4), len(p), overhead, flags))
	o.transmit(id, at, p, last, number, generation)
	return true
}

func (o *otherSide) transmit(id, at int64, p []byte, last bool, number, generation uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := append(make([]byte, 0, udp.MaxPacket), 0x40|byte(generation&1)<<2|(packet.NumberLength-1))
	b = append(b, o.connID...)
	b = binary.BigEndian.AppendUint32(b, uint32(number))
	header := len(b)
	b = append(packet.AppendStreamHeader(b, id, at, last), p...)
	o.udp.WriteToUDPAddrPort(o.seal.Seal(b, header, number, generation), o.remote)
}

// TestTwoSenders sends streams whose pieces another side tries to forward, some before they are in the log, as the
// kernel does, and some in a race with the sender.
func TestTwoSenders(t *testing.T) {
	for name, cfg := range map[string]proxyConfig{
		"clean": {},
		"lossy": {loss: 0.03, reorder: 0.03, duplicate: 0.01, bothWays: true},
	} {
		t.Run(name, func(t *testing.T) {
			useKeyUpdates(t, 200)
			testTwoSenders(t, cfg)
		})
	}
}

func testTwoSenders(t *testing.T, cfg proxyConfig) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	other := &otherSide{arena: new(sharedArena), clock: clock.NewSystem()}
	site := newTappedSite(t, other)
	proxy := newProxy(t, site.udp.LocalAddr(), cfg)
	client, server, sender := site.connect(ctx, proxy.down.LocalAddr(), &quic.Config{
		InitialStreamReceiveWindow: 1 << 20, InitialConnectionReceiveWindow: 8 << 20,
	}, 4)
	const streams, size = 10, 150_000
	results := make(chan Result, streams)
	sub := sender.NewSubscription(SubscriptionConfig{})
	var publishers sync.WaitGroup
	for i := range streams {
		log := track.NewLog(50, nil)
		data := indexed(uint64(i), size)
		st, err := sub.OpenStream(StreamConfig{Prefix: data[:8], Log: log, Start: 50, OnDone: func(r Result) { results <- r }})
		require.NoError(t, err)
		publishers.Go(func() { publishBoth(other, st.state, log, data[8:], uint64(i)) })
	}
	transfer{size: size}.receive(t, ctx, client, streams)
	for range streams {
		select {
		case r := <-results:
			require.Equal(t, Delivered, r.Outcome)
			require.Equal(t, int64(size), r.Size)
		case <-ctx.Done():
			t.Fatalf("streams did not end: %+v", sender.Stats())
		}
	}
	publishers.Wait()
	st := sender.Stats()
	t.Logf("other side sent %d and declined %d packets; sender sent %d, %d of them again; %d lost, %d spuriously; ledger %d",
		other.sent.Load(), other.declined.Load(), st.Packets, st.Retransmissions, st.LostPackets, st.SpuriousPackets, st.Ledger)
	require.NotZero(t, other.sent.Load())
	require.Zero(t, other.arena.sub.Writers.Load())
	require.Equal(t, uint64(streams*size), other.arena.sub.DataSent.Load())
	server.CloseWithError(0, "")
}

// publishBoth publishes data piece by piece: each is offered to the other side, before or after it is in the log.
func publishBoth(o *otherSide, st *claim.StreamState, log *track.Log, data []byte, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for len(data) > 0 {
		p := data[:min(1+rng.IntN(1200), len(data))]
		data = data[len(p):]
		at, last := log.Written(), len(data) == 0
		switch rng.IntN(3) {
		case 0:
			o.forward(st, at, p, last)
			log.Append(p)
		case 1:
			log.Append(p)
			o.forward(st, at, p, last)
		default:
			log.Append(p)
		}
		for caughtUp := rng.IntN(8) > 0; caughtUp; runtime.Gosched() { // or there is nothing to race for
			if next, _ := st.Cursor(); next == log.Written() && o.arena.sub.Fits(testMTU) {
				break
			}
			time.Sleep(10 * time.Microsecond)
		}
	}
	log.Finish()
}

func newTappedSite(t *testing.T, other *otherSide) *site {
	return newSiteWith(t, Config{Memory: other.arena, Shards: 1}, func(udp *net.UDPConn, l *Loop) (quic.Hooks, *Sender) {
		other.udp = udp
		s := l.NewSender(SenderConfig{})
		return tapped{s, other}, s
	})
}
