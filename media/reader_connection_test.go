package media

import (
	"context"
	"crypto/tls"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
	"sluice/track"
)

// idleReading is the idle timeout of a liveReading.
const idleReading = 4 * time.Second

// liveReading is a connection with a stock peer, in memory and virtual time, on which a stream trickles.
type liveReading struct {
	*testing.T
	connection
	duplicate atomic.Bool  // each packet arrives twice
	answers   atomic.Int64 // packets of the peer
	hooks     *readerHooks
	log       *track.Log
}

// readerHooks observe what the reader takes.
type readerHooks struct {
	Hooks
	deaf        atomic.Bool      // packets that are not taken are lost, unless quic-go needs an ACK
	left        atomic.Int64     // offered packets that were not taken
	generations map[uint64]int64 // packets taken, by key generation; the reader's
}

func (h *readerHooks) Take(p quic.OfferedPacket) bool {
	if h.Hooks.Take(p) {
		h.mu.Lock()
		h.generations[h.read.generation]++
		h.mu.Unlock()
		return true
	}
	h.left.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deaf.Load() && !h.leavesAcks()
}

// testReading runs f with a connection in a bubble of virtual time.
func testReading(t *testing.T, suite uint16, client bool, f func(r *liveReading)) {
	useSuite(t, suite)
	synctest.Test(t, func(t *testing.T) {
		r := &liveReading{T: t, log: track.NewLog(0, nil)}
		_, ownEnd, peerEnd := simulated(t, func(from, _ netip.Addr) sim.Link {
			if from == peerHost {
				r.answers.Add(1)
			}
			if r.duplicate.Load() {
				return sim.Link{Delay: time10, Duplicate: 1}
			}
			return sim.Link{Delay: time10}
		})
		s := newSiteWith(t, ownEnd, LoopConfig{Shards: 1}, func(s *site, cfg SenderConfig) (quic.Hooks, *Sender) {
			r.hooks = &readerHooks{Hooks: s.loop.NewSender(cfg).Hooks(), generations: map[uint64]int64{}}
			return r.hooks, r.hooks.Sender
		})
		ctx, cancel := context.WithCancel(t.Context())
		r.connection = s.connect(ctx, client, peerEnd, &quic.Config{
			MaxIdleTimeout: idleReading, InitialStreamReceiveWindow: 8 << 20, InitialConnectionReceiveWindow: 8 << 20,
		}, 4)

		_, err := r.sender.NewSubscription(SubscriptionConfig{}).OpenStream(StreamConfig{Log: r.log})
		require.NoError(t, err)
		var work sync.WaitGroup
		work.Go(func() { r.trickle(ctx) })
		work.Go(func() { r.read(ctx) })
		f(r)

		cancel()
		work.Wait()
	})
}

func (r *liveReading) trickle(ctx context.Context) {
	for ctx.Err() == nil {
		r.log.Append(make([]byte, 100))
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *liveReading) read(ctx context.Context) {
	s, err := r.peer.AcceptUniStream(ctx)
	for b := make([]byte, 1000); err == nil; {
		_, err = s.Read(b)
	}
}

// read5s returns how many packets the reader takes in five seconds.
func (r *liveReading) read5s() uint64 {
	before := r.sender.Stats().ReadAcks
	time.Sleep(5 * time.Second)
	require.NoError(r, context.Cause(r.own.Context()))
	return r.sender.Stats().ReadAcks - before
}

// bothEnds runs a test with each end as the client, with each kind of cipher.
func bothEnds(t *testing.T, f func(r *liveReading)) {
	for name, suite := range map[string]uint16{
		"AES": tls.TLS_AES_128_GCM_SHA256, "ChaCha20": tls.TLS_CHACHA20_POLY1305_SHA256,
	} {
		t.Run(name+", accepted", func(t *testing.T) { testReading(t, suite, false, f) })
		t.Run(name+", dialed", func(t *testing.T) { testReading(t, suite, true, f) })
	}
}

// ACKs are read before and after key updates, which both ends begin.
func TestReaderThroughKeyUpdates(t *testing.T) {
	useKeyUpdates(t, 100)
	bothEnds(t, func(r *liveReading) {
		for range 8 {
			r.sender.keys.due.Store(true)
			r.read5s()
		}
		r.own.CloseWithError(0, "")
		synctest.Wait()
		require.Greater(r, len(r.hooks.generations), 4)
		for generation, n := range r.hooks.generations {
			r.Logf("generation %d: %d packets", generation, n)
		}
	})
}

// No ACK is processed twice if the network duplicates each packet.
func TestReaderOfDuplicates(t *testing.T) {
	bothEnds(t, func(r *liveReading) {
		r.duplicate.Store(true)
		acks, sent := r.sender.Stats().Acks, r.answers.Load()
		require.NotZero(r, r.read5s())
		require.LessOrEqual(r, int64(r.sender.Stats().Acks-acks), r.answers.Load()-sent+1)
	})
}
