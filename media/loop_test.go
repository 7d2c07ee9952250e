package media

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
	"sluice/track"
)

func TestAlarms(t *testing.T) {
	var a alarms
	senders := make([]*Sender, 50)
	for i := range senders {
		senders[i] = &Sender{task: task{index: -1}}
		a.set(senders[i], clock.Time(100+(i*37)%50))
	}
	a.set(senders[7], 500) // put off: stays
	a.set(senders[8], 3)
	a.set(senders[9], clock.Never)
	a.set(senders[9], clock.Never)
	require.Len(t, a, 49)
	require.Equal(t, clock.Time(3), a.next())
	require.Nil(t, a.due(2))
	var got []clock.Time
	for s := a.due(1000); s != nil; s = a.due(1000) {
		require.Equal(t, -1, s.task.index)
		got = append(got, s.task.alarm)
	}
	require.Len(t, got, 49)
	require.True(t, slices.IsSorted(got))
	require.Equal(t, clock.Time(3), got[0])
	require.Equal(t, clock.Never, a.next())
	require.Nil(t, a.due(clock.Never-1))
}

// Two packets of a stream make one train if the kernel can cut it.
func TestSenderMakesTrains(t *testing.T) {
	w := newWorld(t)
	w.sock.gso = true
	w.path("192.0.2.1:4433", testMTU)
	w.stream(w.subscribe(), newTestLog(0, 6000))
	w.run()
	require.Equal(t, []int{5}, w.sock.counts)
}

// A full batch leaves before the next sender adds to it.
func TestFullBatch(t *testing.T) {
	w := newWorld(t)
	for !w.shard.batch.Full() {
		w.shard.batch.Add(w.s.path.route.Route, testMTU)
	}
	w.shard.after(w.s.Sender, false, clock.Never)
	require.False(t, w.shard.batch.Full())
	require.NotEmpty(t, w.sock.packets)
}

// A sender with much to send lets others send in between.
func TestQuantum(t *testing.T) {
	w := newWorld(t, withController(&fixedController{window: 8 << 20}))
	w.stream(w.subscribe(), newTestLog(0, 500_000))
	feeds, senders, _ := w.shard.take(nil, nil)
	w.shard.serve(feeds, senders)
	require.Len(t, w.sock.packets, quantum)
	require.False(t, w.shard.idle())
}

func TestFeed(t *testing.T) {
	w := newWorld(t)
	log := newTestLog(0, 10)
	sub := w.subscribe()
	var streams []*Stream
	for i := range 5 {
		st, _ := w.stream(sub, log, func(c *StreamConfig) { c.Group = uint64(i) })
		streams = append(streams, st)
	}
	require.Len(t, w.shard.feeds, 1, "one for all")
	f := w.shard.feeds[log]
	require.Len(t, w.run(), 5)
	log.Append(testBytes(10, 10))
	log.Append(testBytes(20, 10))
	require.Len(t, w.shard.grown, 1, "woken once")
	require.Len(t, w.run(), 5)
	for _, st := range streams[:3] {
		st.Reset(0)
	}
	w.run()
	log.Append(testBytes(30, 10))
	w.run()
	require.Len(t, f.streams, 2, "streams that have ended are removed")
	streams[3].Reset(0)
	streams[4].Reset(0)
	w.run()
	log.Append(testBytes(40, 10))
	w.run()
	require.Empty(t, w.shard.feeds, "no stream follows")
	f.Wake() // too late
	w.run()

	w.stream(sub, log)
	require.Len(t, w.shard.feeds, 1)
	log.Finish()
	w.run()
	require.Empty(t, w.shard.feeds, "the log has ended")
	w.stream(sub, log)
	require.Empty(t, w.shard.feeds, "nothing to follow")
	require.True(t, w.run()[0].fin)
}

// wireSocket hands packets to a function.
type wireSocket struct{ deliver func(sentPacket) }

func (wireSocket) Trains() bool               { return false }
func (wireSocket) Name(netip.AddrPort) []byte { return nil }
func (s wireSocket) Write(messages []udp.Message) {
	for _, m := range messages {
		s.deliver(sentPacket{slices.Clone(m.Data), m.Route.Remote(), m.Route.ECN()})
	}
}

// The goroutine wakes for logs, acknowledgments and alarms only.
func TestShardGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(LoopConfig{}, clock.NewSystem())
		packets := make(chan sentPacket, 100)
		sh := newShard(l, wireSocket{func(p sentPacket) { packets <- p }}, new(udp.Counters))
		l.shards = []*shard{sh}
		l.done.Go(sh.run)
		defer l.Close()
		s := l.NewSender(SenderConfig{}).Hooks()
		s.NextPacketNumber()
		s.PeerParameters(defaultParams())
		s.Keys(0, tls.TLS_AES_128_GCM_SHA256, packet.Version1, nil, testSecret)
		log := newTestLog(0, 10)
		results := make(chan Result, 1)
		sub := s.NewSubscription(SubscriptionConfig{})
		_, err := sub.OpenStream(StreamConfig{Log: log, OnDone: func(r Result) { results <- r }})
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, packets)
		s.Path(quic.PathInfo{Remote: &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, MTU: testMTU})
		synctest.Wait()
		require.Len(t, packets, 1)
		log.Finish()
		synctest.Wait()
		require.Len(t, packets, 2)

		time.Sleep(time.Second) // PTO
		synctest.Wait()
		require.Len(t, packets, 3, "the content of both in one packet")
		next := s.PeekPacketNumber()
		_, err = s.Acked(&quic.AckInfo{Ranges: []quic.AckRange{{Smallest: 0, Largest: next - 1}}, Received: time.Now()})
		require.NoError(t, err)
		require.Equal(t, Delivered, (<-results).Outcome)
		time.Sleep(24 * time.Hour)
		require.Len(t, packets, 3)
		require.NoError(t, l.Close())
	})
}

func TestLoopClose(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer pc.Close()
	l, err := NewLoop(LoopConfig{Shards: 3}, pc)
	require.NoError(t, err)
	log := newTestLog(0, 10)
	var done atomic.Int32
	var senders []Hooks
	for i := range 9 {
		s := l.NewSender(SenderConfig{}).Hooks()
		senders = append(senders, s)
		s.NextPacketNumber()
		s.PeerParameters(defaultParams())
		s.Keys(0, tls.TLS_AES_128_GCM_SHA256, packet.Version1, nil, testSecret)
		if i < 6 {
			s.Path(quic.PathInfo{Remote: pc.LocalAddr(), MTU: testMTU})
		}
		_, err := s.NewSubscription(SubscriptionConfig{}).OpenStream(StreamConfig{Log: log, OnDone: func(r Result) {
			if r.Outcome == ConnectionClosed {
				done.Add(1)
			}
		}})
		require.NoError(t, err)
	}
	require.Equal(t, 6, l.Stats().Senders)
	senders[0].Closed(errors.New("over"))
	require.Eventually(t, func() bool { return done.Load() == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, 5, l.Stats().Senders)
	require.NoError(t, l.Close())
	require.Equal(t, int32(6), done.Load())
	require.Equal(t, uint64(6), l.Stats().Counters.Outcomes[ConnectionClosed])
	senders[8].Path(quic.PathInfo{Remote: pc.LocalAddr(), MTU: testMTU}) // a handshake that ends too late
	for _, s := range senders {
		s.Closed(nil)
	}
	require.Eventually(t, func() bool { return done.Load() == 9 }, time.Minute, time.Millisecond)
	require.False(t, func() bool { log.Finish(); return log.Pinned() }())
}

// TestSenderClosesDuringStats has a sender close after it was looked at. It counts once: counters must not go back.
func TestSenderClosesDuringStats(t *testing.T) {
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer pc.Close()
	l, err := NewLoop(LoopConfig{}, pc)
	require.NoError(t, err)
	s := l.NewSender(SenderConfig{}).Hooks()
	s.Path(quic.PathInfo{Remote: pc.LocalAddr(), MTU: testMTU})
	s.mu.Lock()
	s.counters.Acks = 3
	s.mu.release()
	_, senders := l.look()
	require.Len(t, senders, 1)
	s.Closed(nil)
	require.EqualValues(t, 3, l.total(senders).Acks)
	require.EqualValues(t, 3, l.Stats().Counters.Acks)
	require.NoError(t, l.Close())
}

// TestLoopSockets has a loop with two sockets. A sender belongs to a shard of the socket that its connection has, and
// its packets leave there.
func TestLoopSockets(t *testing.T) {
	var sockets []net.PacketConn
	for range 2 {
		pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
		require.NoError(t, err)
		defer pc.Close()
		sockets = append(sockets, pc)
	}
	few, err := NewLoop(LoopConfig{Shards: 1}, sockets...)
	require.NoError(t, err)
	require.Len(t, few.shards, 2, "one for each socket")
	require.NoError(t, few.Close())

	l, err := NewLoop(LoopConfig{Shards: 5}, sockets...)
	require.NoError(t, err)
	defer l.Close()
	require.Len(t, l.shardsOf[0], 3)
	require.Len(t, l.shardsOf[1], 2)
	of := make(map[*shard]int)
	for range 30 {
		of[l.NewSender(SenderConfig{Socket: sockets[1]}).shard]++
	}
	require.Len(t, of, 2)
	for _, sh := range l.shardsOf[1] {
		require.Equal(t, 15, of[sh])
	}
	peer, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer peer.Close()
	require.NoError(t, peer.SetReadDeadline(time.Now().Add(time.Minute)))
	for i, pc := range sockets {
		s := l.NewSender(SenderConfig{Socket: pc}).Hooks()
		s.NextPacketNumber()
		s.PeerParameters(defaultParams())
		s.Keys(0, tls.TLS_AES_128_GCM_SHA256, packet.Version1, nil, testSecret)
		s.Path(quic.PathInfo{Remote: peer.LocalAddr(), MTU: testMTU})
		log := newTestLog(0, 10)
		log.Finish()
		_, err := s.NewSubscription(SubscriptionConfig{}).OpenStream(StreamConfig{Log: log})
		require.NoError(t, err)
		_, from, err := peer.ReadFrom(make([]byte, testMTU))
		require.NoError(t, err)
		require.Equal(t, pc.LocalAddr(), from)
		require.Eventually(t, func() bool { return l.SentOn(i) > 0 }, time.Minute, time.Millisecond)
	}
	require.NoError(t, l.Close())
	require.Equal(t, l.Sent(), l.SentOn(0)+l.SentOn(1))
	require.Equal(t, l.Sent(), l.Stats().Packets)
}

func TestLoopConfig(t *testing.T) {
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer pc.Close()
	_, err = NewLoop(LoopConfig{Shards: -1}, pc)
	require.ErrorContains(t, err, "shards")
	_, err = NewLoop(LoopConfig{Shards: 1000}, pc)
	require.ErrorContains(t, err, "shards")
	_, err = NewLoop(LoopConfig{}, struct{ net.PacketConn }{pc})
	require.ErrorContains(t, err, "not a UDP socket")
}

// Subscribers of one log are told by few goroutines, which keep no more than the end of it in memory.
func TestFeedReleasesLog(t *testing.T) {
	mem := new(track.Memory)
	log := track.NewLog(0, mem)
	log.Discard(1 << 40)
	w := newWorld(t, withController(&fixedController{window: 1 << 20}))
	w.stream(w.subscribe(), log)
	for range 30 {
		log.Append(testBytes(log.End(), 20_000))
		w.run()
		w.ack(10 * ms)
	}
	require.Less(t, mem.Bytes(), int64(300_000))
}
