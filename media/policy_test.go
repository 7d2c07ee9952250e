package media

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/track"
)

func TestPriorityDrop(t *testing.T) {
	const audio, key, delta, extra = Level(0x0100), Level(0x8000), Level(0x8010), Level(0xff00)
	all := func(late ...Level) []Backlog {
		var b []Backlog
		for _, l := range []Level{audio, key, delta, extra} {
			age := time.Duration(0)
			for _, x := range late {
				if x == l {
					age = 450 * ms
				}
			}
			b = append(b, Backlog{Level: l, Streams: 1, Age: age})
		}
		return b
	}
	var p PriorityDrop
	now := clock.Time(time.Hour)
	ask := func(after time.Duration, levels []Backlog) Level {
		now = now.Add(after)
		return p.Decide(now, Load{Levels: levels}).Threshold
	}
	require.Equal(t, LowestPriority, ask(0, all()))
	require.Equal(t, delta, ask(10*ms, all(extra)), "the lowest goes first")
	require.Equal(t, delta, ask(10*ms, all(delta)), "one level each 400 ms")
	require.Equal(t, key, ask(400*ms, all(delta)))
	require.Equal(t, audio, ask(401*ms, all(key)))
	require.Equal(t, audio, ask(401*ms, all(audio)), "the highest stays")
	require.Equal(t, audio, ask(2*time.Second, all()), "not yet")
	require.Equal(t, LowestPriority, ask(10*ms, all()))

	require.Equal(t, delta, ask(10*ms, all(extra)), "that was too early")
	require.Equal(t, delta, ask(4*time.Second, all()), "so it waits longer")
	require.Equal(t, LowestPriority, ask(10*ms, all()))
	for range 10 {
		ask(10*ms, all(extra))
		ask(time.Minute, all())
	}
	require.Equal(t, 32*time.Second, p.wait, "up to 16 times as long")
	ask(10*time.Minute, all())
	ask(0, all(extra))
	require.Equal(t, 2*time.Second, p.wait, "a long time ago")

	var busy PriorityDrop
	for range 10 {
		require.Equal(t, LowestPriority, busy.Decide(now, Load{Levels: all(audio)}).Threshold,
			"to drop others would not help the highest")
		now = now.Add(time.Second)
	}

	var first PriorityDrop
	first.Decide(now, Load{Levels: []Backlog{{Level: audio}, {Level: key}}})
	now = now.Add(time.Second)
	require.Equal(t, LowestPriority, first.Decide(now, Load{Levels: all(key)[1:]}).Threshold, "of those that are left")
	for level := range Level(2 * maxLevels) {
		first.Decide(now, Load{Levels: []Backlog{{Level: level}}})
	}
	require.Len(t, first.inUse, maxLevels)
	first.Decide(now.Add(levelPeriod+1), Load{})
	require.Empty(t, first.inUse)

	var single PriorityDrop
	only := []Backlog{{Level: key, Age: time.Hour}}
	require.Equal(t, LowestPriority, single.Decide(now, Load{Levels: only}).Threshold, "never all")
}

func TestThreshold(t *testing.T) {
	p := &fixedPolicy{limits: UpTo(LowestPriority)}
	f := &fixedController{window: 2 * testMTU}
	w := newWorld(t, withController(f), func(c *worldConfig) { c.sender.DropPolicy = p })
	sub := w.subscribe()
	priority := func(n uint8, group uint64) func(*StreamConfig) {
		return func(c *StreamConfig) { c.Priority, c.Group = n, group }
	}
	_, high := w.stream(sub, newTestLog(0, 10_000), priority(1, 0))
	low1, low := w.stream(sub, newTestLog(0, 3_000), priority(9, 1))
	w.run()
	require.Zero(t, p.asked, "the policy is not asked about data that waits for a moment")
	w.sleep(policyInterval)
	require.Equal(t, 1, p.asked)
	require.Equal(t, []Level{levelOf(128, 1), levelOf(128, 9)}, []Level{p.load.Levels[0].Level, p.load.Levels[1].Level})
	require.Equal(t, int64(3000), p.load.Levels[1].Bytes)
	require.Equal(t, 1, p.load.Levels[1].Streams)

	p.limits = UpTo(levelOf(128, 5))
	require.NoError(t, sub.SendDatagram(Datagram{Payload: []byte("x"), Priority: 9}))
	w.run()
	w.sleep(policyInterval)
	require.Equal(t, []Result{{Outcome: Dropped, Code: codeDeliveryTimeout, ID: -1}}, low(), "it was not opened")
	require.Equal(t, uint64(1), w.s.Stats().Reasons[DatagramDropped])
	require.Equal(t, uint32(levelOf(128, 5)), w.s.state.Threshold.Load())
	_, refused := w.stream(sub, newTestLog(0, 10), priority(6, 2))
	w.run()
	require.Equal(t, Dropped, refused()[0].Outcome, "nor are new ones")
	require.NoError(t, sub.SendDatagram(Datagram{Payload: []byte("x"), Priority: 6}))
	require.Equal(t, uint64(2), w.s.Stats().Reasons[DatagramDropped])
	require.Equal(t, low1.state.Phase.Load(), uint32(claim.StreamClosed))

	f.window = 1 << 20
	for range 5 {
		w.ack(10 * ms)
		w.run()
	}
	p.limits = UpTo(levelOf(128, 0))
	w.sleep(policyInterval) // it is asked as long as it holds something back
	require.Equal(t, Dropped, high()[0].Outcome)
	require.Equal(t, []uint64{3, codeDeliveryTimeout, 10_006}, w.peer.lastReset, "open streams are reset")
	p.limits = UpTo(LowestPriority)
	w.sleep(policyInterval)
	asked := p.asked
	w.sleep(time.Hour)
	w.ack(10 * ms)
	w.sleep(time.Hour)
	require.Equal(t, asked, p.asked)
}

// The largest object counts for how long others may wait, whoever has sent it: what waits does not tell, because the
// forwarder sends a key frame before the media sender sees it.
func TestLargestObject(t *testing.T) {
	object := func(size int64) *track.Log {
		log := track.NewLog(0, nil)
		require.NoError(t, log.AddObject(track.Object{PayloadStart: 2, End: size, Received: clock.NewSystem().Wall()}))
		log.Append(testBytes(0, int(size)))
		return log
	}
	for _, forwarded := range []int64{0, 5_000, 9_000} {
		p := &fixedPolicy{limits: UpTo(LowestPriority)}
		w, f := withForwarder(t, withController(&fixedController{window: 12_000}), func(c *worldConfig) {
			c.sender.DropPolicy = p
		})
		if forwarded > 0 {
			f.send(f.open(int64(len(testPrefix)), 0), int64(len(testPrefix)), forwarded, false)
		}
		w.adopt(object(9_000))
		f.opened, f.adopted = nil, false
		w.stream(w.subscribe(), object(20_000), func(c *StreamConfig) { c.Priority = 200 })
		w.run()
		w.sleep(policyInterval)
		require.Equal(t, 1, p.asked)
		require.Equal(t, []int64{0, 9_000}, []int64{p.load.Levels[0].Bytes, p.load.Levels[0].Largest}, forwarded)
		require.EqualValues(t, 20_000, p.load.Levels[1].Largest)
	}
}

// lagging notes how far a subscription is behind.
type lagging struct {
	bytes []int64
	lag   []time.Duration
}

func (l *lagging) note(bytes int64, lag time.Duration) {
	l.bytes, l.lag = append(l.bytes, bytes), append(l.lag, lag)
}

func TestTooFarBehind(t *testing.T) {
	var e lagging
	w := newWorld(t, withController(&fixedController{window: 2 * testMTU}), func(c *worldConfig) {
		c.sender.MaxBehindBytes, c.sender.MaxBehind = 100_000, 5*time.Second
	})
	slow := w.subscribe(func(c *SubscriptionConfig) { c.OnBehind = e.note })
	fast := w.subscribe(func(c *SubscriptionConfig) {
		c.Priority = 1
		c.OnBehind = func(int64, time.Duration) { t.Error("it is not behind") }
	})
	log := newTestLog(0, 50_000)
	w.stream(slow, log)
	w.stream(slow, newTestLog(0, 45_000), func(c *StreamConfig) { c.Group = 1 })
	w.stream(fast, newTestLog(0, 100))
	w.run()
	w.sleep(backlogInterval)
	require.Empty(t, e.bytes)
	log.Append(testBytes(50_000, 20_000))
	w.run()
	w.sleep(backlogInterval)
	require.Len(t, e.bytes, 1)
	require.Greater(t, e.bytes[0], int64(100_000))
	w.sleep(backlogInterval)
	require.Len(t, e.bytes, 1, "once")
}

func TestTooLate(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, -1} {
		var e lagging
		w := newWorld(t, func(c *worldConfig) {
			c.sender.MaxBehind, c.params.MaxStreamDataUni = limit, 10
		})
		log := track.NewLog(0, nil)
		require.NoError(t, log.AddObject(track.Object{ID: 0, PayloadStart: 2, End: 100, Received: w.clock.Wall()}))
		log.Append(testBytes(0, 3))
		w.stream(w.subscribe(func(c *SubscriptionConfig) { c.OnBehind = e.note }), log)
		w.run()
		w.ack(10 * ms)
		w.clock.t = w.clock.t.Add(time.Minute) // the publisher pauses within the object
		log.Append(testBytes(3, 97))
		w.run()
		for range 20 {
			w.sleep(time.Second)
		}
		require.Equal(t, limit > 0, len(e.lag) == 1)
		if limit > 0 {
			require.Equal(t, 1100*ms, e.lag[0])
		}
	}
}
