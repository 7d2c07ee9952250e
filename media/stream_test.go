package media

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
	"sluice/internal/packet"
	"sluice/track"
)

func TestDiscardedLog(t *testing.T) {
	log := newTestLog(0, 200_000)
	log.Finish()
	log.Discard(1 << 40)
	w := newWorld(t)
	_, err := w.subscribe().OpenStream(StreamConfig{Log: log})
	require.ErrorIs(t, err, track.ErrDiscarded)
	require.Zero(t, w.s.Stats().Open)
}

func TestReset(t *testing.T) {
	w := newWorld(t)
	sub := w.subscribe(func(c *SubscriptionConfig) {
		c.ErrorCode = func(code uint64) uint64 { return 0x52e4a40fa8db + code }
	})
	log := newTestLog(0, 3000)
	st, results := w.stream(sub, log)
	w.run()
	st.Reset(1)
	st.Reset(2)
	log.Finish()
	sent := w.run()
	require.Equal(t, []Result{{Outcome: Canceled, Code: 1, ID: 3, Sent: 3000}}, results(),
		"once, and before it is acknowledged")
	require.False(t, log.Pinned())
	require.Len(t, sent, 1)
	require.Equal(t, []uint64{3, 0x52e4a40fa8dc, 3006}, sent[0].fields)

	w.peer.forget(sent[0].number)
	w.ack(10 * ms)
	sent = w.sleep(time.Hour)
	require.Equal(t, []uint64{3, 0x52e4a40fa8dc, 3006}, sent[0].fields, "until it is acknowledged")
	w.ack(10 * ms)
	require.Zero(t, w.s.Stats().Open)
	require.Empty(t, w.s.streams.byNumber)
	w.sleep(time.Hour)
	require.Equal(t, clock.Never, w.shard.alarms.next())
}

// Reset tells how far the stream was sent: behind the log's end, if the forwarder was ahead.
func TestResetTellsHowFarItWasSent(t *testing.T) {
	w, f := withForwarder(t)
	shared := f.open(int64(len(testPrefix)), 0)
	f.send(shared, int64(len(testPrefix)), 150, false)
	st, _ := w.adopt(newTestLog(0, 100))
	require.EqualValues(t, 150, st.Reset(0))
	require.EqualValues(t, 150, st.Reset(0), "again")
	f.opened = nil
	own, _ := w.stream(w.subscribe(), newTestLog(0, 100), func(c *StreamConfig) { c.Start = 20 })
	require.EqualValues(t, 20, own.Reset(0), "nothing was sent")
}

func TestSubscriptionClose(t *testing.T) {
	w := newWorld(t, withController(&fixedController{window: 2 * testMTU}))
	sub, other := w.subscribe(), w.subscribe()
	_, a := w.stream(sub, newTestLog(0, 10_000))
	w.run()
	_, b := w.stream(sub, newTestLog(0, 10_000), func(c *StreamConfig) { c.Group = 1 })
	log := newTestLog(0, 100)
	log.Finish()
	_, c := w.stream(other, log)
	require.NoError(t, sub.SendDatagram(Datagram{Payload: []byte("x")}))
	sub.Close(4)
	sub.Close(5)
	w.run()
	require.Equal(t, []Result{{Outcome: Canceled, Code: 4, ID: 3, Sent: a()[0].Sent}}, a())
	require.Equal(t, []Result{{Outcome: Canceled, Code: 4, ID: -1}}, b())
	_, err := sub.OpenStream(StreamConfig{Log: log})
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, sub.SendDatagram(Datagram{}), ErrClosed)
	for range 5 {
		w.ack(10 * ms)
		w.run()
	}
	require.Equal(t, Delivered, c()[0].Outcome)
	require.Empty(t, w.peer.datagrams)
	require.Equal(t, uint64(1), w.s.Stats().Reasons[DatagramClosed])
}

func TestConnectionClose(t *testing.T) {
	w := newWorld(t)
	log := newTestLog(0, 100)
	_, results := w.stream(w.subscribe(), log)
	sub := w.subscribe()
	w.run()
	require.NotEmpty(t, w.shard.senders)
	w.s.Closed(nil)
	w.s.Closed(nil)
	require.Equal(t, []Result{{Outcome: ConnectionClosed, ID: 3, Sent: 100}}, results())
	log.Append([]byte("more"))
	require.Empty(t, w.run())
	require.Empty(t, w.shard.senders)
	require.Empty(t, w.shard.feeds)
	require.Equal(t, clock.Never, w.shard.alarms.next(), "nothing keeps the sender")
	_, err := sub.OpenStream(StreamConfig{Log: log})
	require.ErrorIs(t, err, ErrClosed)
	w.s.NextPacketNumber() // for CONNECTION_CLOSE
	w.ackRanges(w.peer.ranges()...)
	w.path("192.0.2.1:1", testMTU)
	log.Finish()
	require.False(t, log.Pinned())
}

// OBJECT_DELIVERY_TIMEOUT (draft §8): checked before an object is sent or repeated.
func TestObjectTimeout(t *testing.T) {
	newLog := func(w *world) *track.Log {
		log := track.NewLog(0, nil)
		for i := range 3 {
			start := int64(1000 * i)
			o := track.Object{
				ID: uint64(i), Start: start, PayloadStart: start + 2, End: start + 1000, Received: w.clock.Wall(),
			}
			require.NoError(t, log.AddObject(o))
			log.Append(testBytes(start, 1000))
			w.clock.advance(100 * ms)
		}
		return log
	}
	withTimeout := func(c *SubscriptionConfig) { c.Timeouts.Object = 250 * ms }
	reset := []uint64{3, codeDeliveryTimeout, 1006}

	t.Run("before it is sent", func(t *testing.T) {
		w := newWorld(t)
		_, results := w.stream(w.subscribe(withTimeout), newLog(w))
		require.Empty(t, w.run(), "the first object is 300 ms old")
		require.Equal(t, []Result{{Outcome: ObjectTimedOut, Code: codeDeliveryTimeout, ID: -1}}, results())
	})
	t.Run("in time", func(t *testing.T) {
		w := newWorld(t)
		w.stream(w.subscribe(withTimeout), newLog(w), func(c *StreamConfig) { c.Start = 1000 })
		require.Len(t, w.run(), 2)
	})
	t.Run("while it waits for the window", func(t *testing.T) {
		w := newWorld(t, withController(&fixedController{window: 2 * testMTU}))
		_, results := w.stream(w.subscribe(withTimeout), newLog(w), func(c *StreamConfig) {
			c.Start, c.Prefix = 1000, make([]byte, 1250)
		})
		require.Len(t, w.run(), 2)
		w.ack(160 * ms) // the third object has begun
		require.Equal(t, byte(packet.FrameResetStream), w.run()[0].frame)
		require.Equal(t, ObjectTimedOut, results()[0].Outcome)
	})
	t.Run("before it is repeated", func(t *testing.T) {
		w := newWorld(t)
		log := newLog(w)
		_, results := w.stream(w.subscribe(withTimeout), log, func(c *StreamConfig) { c.Start = 2000 })
		require.Len(t, w.run(), 1)
		w.clock.advance(100 * ms)
		w.peer.received = nil
		for len(results()) == 0 {
			w.sleep(time.Hour)
		}
		require.Equal(t, ObjectTimedOut, results()[0].Outcome)
		require.Equal(t, reset, w.peer.lastReset)
	})
	t.Run("none", func(t *testing.T) {
		w := newWorld(t)
		w.stream(w.subscribe(), newLog(w))
		require.Len(t, w.run(), 3)
	})
	t.Run("set later", func(t *testing.T) {
		w := newWorld(t, withController(&fixedController{window: 2 * testMTU}))
		sub := w.subscribe()
		_, results := w.stream(sub, newLog(w))
		require.Len(t, w.run(), 2)
		sub.SetTimeouts(Timeouts{Object: 10 * ms})
		w.ack(100 * ms)
		require.Equal(t, byte(packet.FrameResetStream), w.run()[0].frame)
		require.Equal(t, ObjectTimedOut, results()[0].Outcome)
	})
	t.Run("the publisher's", func(t *testing.T) {
		for _, wanted := range []time.Duration{0, 10 * ms, time.Second} {
			w := newWorld(t, withController(&fixedController{window: 2 * testMTU}))
			_, results := w.stream(w.subscribe(withTimeout), newLog(w), func(c *StreamConfig) {
				c.Start, c.Timeouts.Object = 1000, wanted
			})
			w.run()
			require.Equal(t, wanted == 10*ms, len(results()) > 0, "the shorter one counts")
		}
	})
	t.Run("object without complete fields", func(t *testing.T) {
		w := newWorld(t)
		log := newLog(w)
		log.Append([]byte{1})
		w.stream(w.subscribe(withTimeout), log, func(c *StreamConfig) { c.Start = 3000 })
		require.Len(t, w.run(), 1)
	})
}

// SUBGROUP_DELIVERY_TIMEOUT (draft §8): a timer from FIN until all is acknowledged.
func TestSubgroupTimeout(t *testing.T) {
	withTimeout := func(c *SubscriptionConfig) { c.Timeouts.Subgroup = 300 * ms }
	t.Run("expires", func(t *testing.T) {
		w := newWorld(t)
		log := newTestLog(0, 100)
		_, results := w.stream(w.subscribe(withTimeout), log)
		w.run()
		w.sleep(10 * time.Second)
		for range 20 {
			w.sleep(time.Second)
		}
		require.Empty(t, results(), "it does not run before FIN")
		log.Finish()
		w.run()
		at := w.clock.t
		for len(results()) == 0 {
			w.sleep(time.Second)
		}
		require.Equal(t, 300*ms, w.clock.t.Sub(at))
		require.Equal(t, Result{Outcome: SubgroupTimedOut, Code: codeDeliveryTimeout, ID: 3, Sent: 100}, results()[0])
		require.Equal(t, []uint64{3, codeDeliveryTimeout, 106}, w.peer.lastReset)
	})
	t.Run("of a log that was reset", func(t *testing.T) {
		w := newWorld(t)
		log := newTestLog(0, 100)
		_, results := w.stream(w.subscribe(withTimeout), log)
		w.run()
		log.Reset(9)
		w.run()
		w.sleep(time.Second)
		require.Empty(t, results(), "its subgroup may go on, and what is there may arrive")
	})
	t.Run("acknowledged in time", func(t *testing.T) {
		w := newWorld(t)
		log := newTestLog(0, 100)
		log.Finish()
		_, results := w.stream(w.subscribe(withTimeout), log)
		w.run()
		w.ack(299 * ms)
		w.sleep(time.Hour)
		require.Equal(t, Delivered, results()[0].Outcome)
	})
	t.Run("never opened", func(t *testing.T) {
		w := newWorld(t, func(c *worldConfig) { c.params.MaxStreamsUni = 0 })
		log := newTestLog(0, 100)
		log.Finish()
		_, results := w.stream(w.subscribe(withTimeout), log)
		w.run()
		for range 20 {
			w.sleep(100 * ms)
		}
		require.Equal(t, Result{Outcome: SubgroupTimedOut, Code: codeDeliveryTimeout, ID: -1}, results()[0])
	})
	t.Run("the publisher's", func(t *testing.T) {
		w := newWorld(t)
		log := newTestLog(0, 100)
		log.Finish()
		_, results := w.stream(w.subscribe(), log, func(c *StreamConfig) {
			c.Timeouts.Subgroup = 50 * ms
		})
		w.run()
		w.sleep(50 * ms)
		require.Equal(t, SubgroupTimedOut, results()[0].Outcome)
	})
	t.Run("changed", func(t *testing.T) {
		w := newWorld(t)
		log := newTestLog(0, 100)
		log.Finish()
		sub := w.subscribe()
		_, results := w.stream(sub, log)
		w.run()
		sub.SetTimeouts(Timeouts{Subgroup: 50 * ms})
		w.run()
		w.sleep(50 * ms)
		require.Equal(t, SubgroupTimedOut, results()[0].Outcome)
	})
}

func TestOutcomeNames(t *testing.T) {
	seen := map[string]bool{}
	for o := range numOutcomes {
		require.NotEmpty(t, o.String())
		require.False(t, seen[o.String()])
		seen[o.String()] = true
	}
	require.Equal(t, "Outcome(99)", Outcome(99).String())
	for r := range numReasons {
		require.NotEmpty(t, r.String())
		require.False(t, seen[r.String()])
		seen[r.String()] = true
	}
	require.Equal(t, "unknown", Reason(99).String())
}

// Without FIN a stream is not complete, even if all its bytes have arrived.
func TestDeliveryOfFIN(t *testing.T) {
	var d delivery
	d.markAcked(0, 10, false)
	require.False(t, d.complete(10))
	d.markAcked(10, 10, true)
	require.True(t, d.complete(10))
}
