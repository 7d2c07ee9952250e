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

var ownHost, peerHost = sim.Host(1), sim.Host(2)

// idleReading is the idle timeout of a liveReading.
const idleReading = 4 * time.Second

// liveReading is a connection with a stock peer, in memory and virtual time, on which a stream trickles.
type liveReading struct {
	*testing.T
	own, peer *quic.Conn
	duplicate atomic.Bool  // each packet arrives twice
	answers   atomic.Int64 // packets of the peer
	sender    *Sender
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
		network := sim.New(1, func(from, _ netip.Addr) sim.Link {
			if from == peerHost {
				r.answers.Add(1)
			}
			if r.duplicate.Load() {
				return sim.Link{Delay: time10, Duplicate: 1}
			}
			return sim.Link{Delay: time10}
		})
		ownEnd, err := network.Listen(netip.AddrPortFrom(ownHost, 0))
		require.NoError(t, err)
		peerEnd, err := network.Listen(netip.AddrPortFrom(peerHost, 0))
		require.NoError(t, err)
		loop, err := NewLoop(LoopConfig{Shards: 1}, ownEnd)
		require.NoError(t, err)
		hooks := loop.NewSender(SenderConfig{Client: client}).Hooks()
		r.hooks = &readerHooks{Hooks: hooks, generations: map[uint64]int64{}}
		r.sender = r.hooks.Sender
		ctx, cancel := context.WithCancel(t.Context())
		own := &quic.Transport{Conn: ownEnd, ConnectionIDLength: 8}
		peer := &quic.Transport{Conn: peerEnd, ConnectionIDLength: 4}
		r.connect(ctx, own, peer, client)

		_, err = r.sender.NewSubscription(SubscriptionConfig{}).OpenStream(StreamConfig{Log: r.log})
		require.NoError(t, err)
		var work sync.WaitGroup
		work.Go(func() { r.trickle(ctx) })
		work.Go(func() { r.read(ctx) })
		f(r)

		cancel()
		work.Wait()
		require.NoError(t, peer.Close())
		require.NoError(t, own.Close())
		require.NoError(t, loop.Close())
		require.NoError(t, ownEnd.Close())
		require.NoError(t, peerEnd.Close())
		network.Close()
	})
}

// connect makes the connection. Either end dials.
func (r *liveReading) connect(ctx context.Context, own, peer *quic.Transport, client bool) {
	conf := &quic.Config{
		MaxIdleTimeout: idleReading, EnableDatagrams: true, InitialStreamReceiveWindow: 8 << 20,
		InitialConnectionReceiveWindow: 8 << 20,
	}
	hooked := quic.WithHooks(ctx, r.hooks)
	dialer, listener, dial := peer, own, ctx
	if client {
		dialer, listener, dial = own, peer, hooked
	} else {
		own.ConnContext = func(context.Context, *quic.ClientInfo) (context.Context, error) { return hooked, nil }
	}
	ln, err := listener.Listen(serverTLS(), conf)
	require.NoError(r, err)
	c, err := dialer.Dial(dial, listener.Conn.LocalAddr(), clientTLS(), conf)
	require.NoError(r, err)
	s, err := ln.Accept(ctx)
	require.NoError(r, err)
	r.own, r.peer = s, c
	if client {
		r.own, r.peer = c, s
	}
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
