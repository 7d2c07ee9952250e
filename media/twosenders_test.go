package media

import (
	"context"
	"encoding/binary"
	"fmt"
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

// modelForwarder is a model of the forwarder on one connection: it has its own keys and knows only the shared state. It
// never waits and never repeats: it declines packets that it cannot send at once.
type modelForwarder struct {
	memory *fixedRoom
	udp    *net.UDPConn
	clock  clock.System

	running  sync.RWMutex // a run has begun with keys that it still needs
	mu       sync.Mutex
	seal     packet.Sealer
	remote   netip.AddrPort
	connID   []byte
	sent     atomic.Int64
	declined atomic.Int64
}

// fixedRoom is memory of fixed size, as in the kernel.
type fixedRoom struct {
	claim.Heap
	mu      sync.Mutex
	conn    *claim.ConnState
	ring    []claim.Record
	streams []*claim.StreamState
}

func (r *fixedRoom) NewConn() *claim.ConnState {
	r.conn = new(claim.ConnState)
	return r.conn
}

func (r *fixedRoom) Ledger(_ *claim.ConnState, n int) []claim.Record {
	if r.ring != nil || n > 4096 {
		return nil
	}
	r.ring = make([]claim.Record, 4096)
	return r.ring
}

func (r *fixedRoom) NewStream() *claim.StreamState {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams = append(r.streams, new(claim.StreamState))
	return r.streams[len(r.streams)-1]
}

// tapped shows keys and paths to the model too: keys before the sender sees them and begins the new generation.
type tapped struct {
	Hooks
	model *modelForwarder
}

func (h tapped) Keys(phase uint64, suite uint16, version uint32, read, write []byte) {
	if write != nil {
		k, err := packet.NewKey(phase, suite, version, write)
		if err != nil {
			panic(err)
		}
		h.model.running.Lock()
		h.model.seal.Install(phase, k)
		h.model.running.Unlock()
	}
	h.Hooks.Keys(phase, suite, version, read, write)
}

func (h tapped) Path(p quic.PathInfo) {
	h.model.mu.Lock()
	h.model.remote = p.Remote.(*net.UDPAddr).AddrPort()
	h.model.connID = p.DestConnID.Bytes()
	h.model.mu.Unlock()
	h.Hooks.Path(p)
}

// forward sends the bytes p of the log, from an offset on, or declines.
func (f *modelForwarder) forward(st *claim.StreamState, offset int64, p []byte, last bool) bool {
	ok := f.try(st, offset, p, last)
	if ok {
		f.sent.Add(1)
	} else {
		f.declined.Add(1)
	}
	return ok
}

func (f *modelForwarder) try(st *claim.StreamState, offset int64, p []byte, last bool) bool {
	s := f.memory.conn
	mtu := int(s.MTU.Load())
	next, closed := st.Cursor()
	if mtu == 0 || closed || next != offset || st.Phase.Load() != claim.StreamOpen ||
		st.Level.Load() > s.Threshold.Load() {
		return false
	}
	id, at, n := int64(st.ID.Load()), offset+st.Shift(), int64(len(p))
	f.mu.Lock()
	overhead := 1 + len(f.connID) + packet.NumberLength + packet.StreamHeaderLength(id, at) + packet.TagLength
	f.mu.Unlock()
	ledger := claim.Ledger(f.memory.ring)
	if overhead+len(p) > mtu || at+n > int64(st.Limit.Load()) || !s.Fits(overhead+len(p)) || !s.Room(ledger) {
		return false
	}
	f.running.RLock()
	defer f.running.RUnlock()
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
	s.Commit(ledger, number, f.clock.Now(), at, claim.NewInfo(uint32(id/4), len(p), overhead, flags))
	f.transmit(id, at, p, last, number, generation)
	return true
}

func (f *modelForwarder) transmit(id, at int64, p []byte, last bool, number, generation uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := append(make([]byte, 0, udp.MaxPacket), 0x40|byte(generation&1)<<2|(packet.NumberLength-1))
	b = append(b, f.connID...)
	b = binary.BigEndian.AppendUint32(b, uint32(number))
	header := len(b)
	b = append(packet.AppendStreamHeader(b, id, at, last), p...)
	b = f.seal.Seal(b, header, number, generation)
	f.seal.Protect()
	f.udp.WriteToUDPAddrPort(b, f.remote)
}

// Streams whose pieces a model of the forwarder tries to send: some before they are in the log, as the kernel does,
// and some in a race with the media sender.
func TestTwoSenders(t *testing.T) {
	for name, cfg := range map[string]proxyConfig{
		"clean": {},
		"lossy": {loss: 0.03, reorder: 0.03, duplicate: 0.01, bothWays: true},
	} {
		for _, dialed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dialed=%v", name, dialed), func(t *testing.T) {
				useKeyUpdates(t, 200)
				testTwoSenders(t, dialed, cfg)
			})
		}
	}
}

func testTwoSenders(t *testing.T, dialed bool, cfg proxyConfig) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	model := &modelForwarder{memory: new(fixedRoom), clock: clock.NewSystem()}
	site := newModelSite(t, model)
	c := site.connect(ctx, dialed, cfg, &quic.Config{
		InitialStreamReceiveWindow: 1 << 20, InitialConnectionReceiveWindow: 8 << 20,
	}, 4)
	const streams, size = 10, 150_000
	results := make(chan Result, streams)
	sender := c.sender
	sub := sender.NewSubscription(SubscriptionConfig{})
	var publishers sync.WaitGroup
	for i := range streams {
		log := track.NewLog(50, nil)
		data := indexed(uint64(i), size)
		st, err := sub.OpenStream(StreamConfig{
			Prefix: data[:8], Log: log, Start: 50, OnDone: func(r Result) { results <- r },
		})
		require.NoError(t, err)
		publishers.Go(func() { publishBoth(model, st.state, log, data[8:], uint64(i)) })
	}
	transfer{size: size}.receive(t, ctx, c.peer, streams)
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
	t.Logf("the model sent %d and declined %d packets; both sent %d, %d of them again; %d lost, %d spuriously",
		model.sent.Load(), model.declined.Load(), st.Packets, st.Retransmissions, st.LostPackets, st.SpuriousPackets)
	require.NotZero(t, model.sent.Load())
	require.Zero(t, model.memory.conn.Writers.Load())
	require.Equal(t, uint64(streams*size), model.memory.conn.DataSent.Load())
	c.own.CloseWithError(0, "")
}

// publishBoth publishes data piece by piece. Some are offered to the model, before or after they are in the log.
func publishBoth(f *modelForwarder, st *claim.StreamState, log *track.Log, data []byte, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for len(data) > 0 {
		p := data[:min(1+rng.IntN(1200), len(data))]
		data = data[len(p):]
		at, last := log.Written(), len(data) == 0
		switch rng.IntN(3) {
		case 0:
			f.forward(st, at, p, last)
			log.Append(p)
		case 1:
			log.Append(p)
			f.forward(st, at, p, last)
		default:
			log.Append(p)
		}
		for caughtUp := rng.IntN(8) > 0; caughtUp; runtime.Gosched() { // else there is nothing to race for
			if next, _ := st.Cursor(); next == log.Written() && f.memory.conn.Fits(testMTU) {
				break
			}
			time.Sleep(10 * time.Microsecond)
		}
	}
	log.Finish()
}

func newModelSite(t *testing.T, model *modelForwarder) *site {
	cfg := LoopConfig{Memory: model.memory, Shards: 1}
	return newSiteWith(t, cfg, func(s *site, sender SenderConfig) (quic.Hooks, *Sender) {
		model.udp = s.udp
		h := s.loop.NewSender(sender)
		return tapped{h.Hooks(), model}, h
	})
}
