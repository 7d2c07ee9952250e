package media

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
	"sluice/track"
)

// fixedPolicy has the limits that the test says.
type fixedPolicy struct {
	limits Limits
	load   Load // of which it was asked last
	asked  int
}

func (p *fixedPolicy) Decide(_ clock.Time, l Load) Limits {
	l.Levels = slices.Clone(l.Levels)
	p.load = l
	p.asked++
	return p.limits
}

// grow adds an object of some bytes to a log.
func (w *world) grow(l *track.Log, size int) {
	at := l.End()
	last, ok := l.Last()
	id := last.ID
	if ok {
		id++
	}
	require.NoError(w.t, l.AddObject(track.Object{
		ID: id, Start: at, IDEnd: at + 1, PayloadStart: at + 2, End: at + int64(size), Received: w.clock.Wall(),
	}))
	l.Append(testBytes(at, size))
	w.run()
}

// limited is a world with a policy that was asked, because data waits for the window.
func limited(t *testing.T, window int, l Limits) (*world, *fixedPolicy, *fixedController) {
	p, f := &fixedPolicy{limits: UpTo(LowestPriority)}, &fixedController{window: window}
	w := newWorld(t, withController(f), func(c *worldConfig) { c.sender.DropPolicy = p })
	w.stream(w.subscribe(func(c *SubscriptionConfig) { c.Priority = 0 }), newTestLog(0, 2*window))
	w.run()
	p.limits = l
	w.sleep(policyInterval)
	f.window = 1 << 20
	w.ack(10 * ms)
	w.run()
	return w, p, f
}

// While there is nothing in the bucket for a level, its objects are not begun. An object that was begun goes whole.
func TestBucketEmpty(t *testing.T) {
	l := UpTo(LowestPriority)
	l.Bucket = claim.Bucket{Rate: 1000, Burst: 10_000, Bounds: [4]uint16{0x00ff, 0x80ff, 0x80ff, 0x80ff}}
	w, p, _ := limited(t, 2*testMTU, l)
	w.s.state.FillBucket(w.clock.t, 1)
	sub := w.subscribe()
	log := track.NewLog(0, nil)
	w.grow(log, 5000)
	_, results := w.stream(sub, log)
	w.run()
	require.Empty(t, results(), "the first object goes whole")
	w.ack(10 * ms)
	w.run()
	w.grow(log, 5000)
	want := Result{Outcome: Dropped, Code: codeDeliveryTimeout, ID: 7, Sent: 5000, Arrived: 5000}
	require.Equal(t, []Result{want}, results())
	require.Equal(t, []uint64{7, codeDeliveryTimeout, 5006}, w.peer.lastReset, "it ends between objects")

	_, later := w.stream(sub, log)
	w.run()
	require.Equal(t, Dropped, later()[0].Outcome, "the next one is not opened")
	require.NoError(t, sub.SendDatagram(Datagram{Payload: []byte("x")}))
	require.Equal(t, uint64(1), w.s.Stats().Reasons[DatagramDropped])
	w.sleep(policyInterval)
	require.Equal(t, uint64(3), p.load.Declined)

	_, urgent := w.stream(w.subscribe(func(c *SubscriptionConfig) { c.Priority = 0 }), newTestLog(0, 9000))
	w.run()
	w.ack(10 * ms)
	require.Empty(t, urgent(), "the most important level goes although the bucket is empty")
	w.clock.advance(time.Minute)
	_, again := w.stream(sub, newTestLog(0, 100))
	w.run()
	require.Empty(t, again(), "it has filled")
}

// oddGroups is a rule that declines even groups.
type oddGroups struct{ asked []claim.Admission }

func (r *oddGroups) Admit(_ *claim.ConnState, a claim.Admission) claim.Verdict {
	if r.asked = append(r.asked, a); a.Group%2 == 0 {
		return claim.Declined
	}
	return claim.Admitted
}

// The rule is told how long the packet is with which an object begins.
func TestRuleKnowsTheSize(t *testing.T) {
	for _, bytes := range []int{1, 500, testMTU, 10 * testMTU} {
		rule := new(oddGroups)
		w := newWorld(t, func(c *worldConfig) { c.loop.Rule = rule })
		sub := w.subscribe()
		log := track.NewLog(0, nil)
		w.grow(log, bytes)
		w.stream(sub, log, func(c *StreamConfig) { c.Group = 1 })
		packets := w.run()
		require.Equal(t, packets[0].size, rule.asked[0].Size, "%d bytes", bytes)
		if bytes < testMTU-100 {
			rule.asked = nil
			require.NoError(t, sub.SendDatagram(Datagram{Group: 1, Header: []byte{1, 2}, Payload: make([]byte, bytes)}))
			require.Equal(t, w.run()[0].size, rule.asked[0].Size, "a datagram of %d bytes", bytes)
		}
	}
}

// The state of a subscription says for a while that an operator's rule has declined something.
func TestRuleIsDropping(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) { c.loop.Rule = new(oddGroups) })
	sub := w.subscribe()
	for _, group := range []uint64{7, 6} {
		require.NoError(t, sub.SendDatagram(Datagram{Group: group}))
		w.run()
		require.Equal(t, group == 6, sub.State().Dropping)
	}
	w.clock.advance(ruleHolds - ms)
	require.True(t, sub.State().Dropping)
	w.clock.advance(ms)
	require.False(t, sub.State().Dropping)
}

// While many streams wait, an operator's rule is asked about some of them at each look, and about each again and again.
func TestRuleIsAskedAboutSome(t *testing.T) {
	const streams = 3 * maxAsked
	rule := new(oddGroups)
	w := newWorld(t, func(c *worldConfig) { c.loop.Rule = rule; c.params.MaxStreamsUni = 0 })
	sub := w.subscribe()
	for i := range uint64(streams) {
		log := track.NewLog(0, nil)
		w.grow(log, 100)
		w.stream(sub, log, func(c *StreamConfig) { c.Group = 2*i + 1 })
	}
	w.run()
	times := make(map[uint64]int)
	for range 6 {
		rule.asked = nil
		w.sleep(policyInterval)
		require.NotEmpty(t, rule.asked)
		require.LessOrEqual(t, len(rule.asked), maxAsked)
		for _, a := range rule.asked {
			times[a.Group]++
		}
	}
	for i := range uint64(streams) {
		require.Equal(t, 2, times[2*i+1], "group %d", 2*i+1)
	}
	w.sleep(policyInterval) // and not about all
	sub.Close(0)
	w.stream(w.subscribe(), newTestLog(0, 100), func(c *StreamConfig) { c.Group = 1 })
	w.run()
	w.sleep(policyInterval)
	require.Len(t, w.s.streams.all, 1)
}

// A sender that has very many streams looks at them less often.
func TestLooksAtManyStreams(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) { c.loop.Rule = new(oddGroups); c.params.MaxStreamsUni = 0 })
	sub, log := w.subscribe(), newTestLog(0, 1)
	for i := range uint64(2 * policyInterval / streamInterval) {
		w.stream(sub, log, func(c *StreamConfig) { c.Group = i })
	}
	w.run()
	require.Equal(t, 2*policyInterval, w.s.observer.due.Sub(w.clock.t))
}

// The state of a subscription, and the Stats, say that the policy drops, whether by a threshold or by a bucket.
func TestStateDropping(t *testing.T) {
	bucket := UpTo(LowestPriority)
	bucket.Bucket = claim.Bucket{Rate: 1000, Burst: 10_000, Bounds: [4]uint16{0x00ff, 0x80ff, 0x80ff, 0x80ff}}
	for name, l := range map[string]Limits{"bucket": bucket, "threshold": UpTo(0x80ff)} {
		t.Run(name, func(t *testing.T) {
			w, p, _ := limited(t, 2*testMTU, l)
			sub := w.subscribe()
			require.True(t, sub.State().Dropping)
			require.Equal(t, l.Threshold, w.s.Stats().Threshold)
			require.Equal(t, l.Bucket.Rate, w.s.Stats().BucketRate)
			p.limits = UpTo(LowestPriority)
			w.sleep(policyInterval)
			require.False(t, sub.State().Dropping)
			require.Zero(t, w.s.Stats().BucketRate)
		})
	}
}

// A group that is late ends where a newer one waits, and not otherwise. What its subscriber can wait for is not late.
func TestGroupDeadline(t *testing.T) {
	l := UpTo(LowestPriority)
	l.GroupDeadline = 400 * ms
	p, f := &fixedPolicy{limits: l}, &fixedController{window: 2 * testMTU}
	w := newWorld(t, withController(f), func(c *worldConfig) { c.sender.DropPolicy = p })
	sub := w.subscribe()
	old, newer := track.NewLog(0, nil), track.NewLog(0, nil)
	for range 20 {
		w.grow(old, 1000)
	}
	w.grow(newer, 1000)
	_, late := w.stream(sub, old)
	_, other := w.stream(w.subscribe(), newTestLog(0, 20_000), func(c *StreamConfig) { c.Group = 9 })
	w.run()
	w.clock.advance(time.Second)
	w.sleep(policyInterval)
	require.Empty(t, late(), "nothing newer waits in its subscription")
	_, next := w.stream(sub, newer, func(c *StreamConfig) { c.Group = 1 })
	some := func() {
		for range 3 {
			w.sleep(policyInterval)
			w.ack(10 * ms)
		}
		w.run()
	}
	sub.SetPatience(2 * time.Second)
	some()
	require.Empty(t, late(), "the subscriber can wait")
	sub.SetPatience(0)
	some()
	require.Len(t, late(), 1)
	require.Equal(t, Late, late()[0].Outcome)
	require.Zero(t, late()[0].Sent%1000, "after an object")
	require.Zero(t, p.load.Declined)
	require.Empty(t, next())
	require.Empty(t, other())
}

// The least important class waits no longer than its deadline, while there is a bucket.
func TestDeadline(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bucket int64
		bounds [4]uint16
		ends   bool
	}{
		{"class 4", 1 << 30, [4]uint16{0x00ff, 0x80ff, 0x80ff, 0x80ff}, true},
		{"class 3", 1 << 30, [4]uint16{0x00ff, 0x80ff, 0x80ff, 0x81ff}, false},
		{"no bucket", 0, [4]uint16{0x00ff, 0x80ff, 0x80ff, 0x80ff}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := UpTo(LowestPriority)
			l.Bucket = claim.Bucket{Rate: 1 << 30, Burst: 1 << 30, Bounds: tt.bounds}
			l.Deadline = 300 * ms
			w, p, f := limited(t, 2*testMTU, l)
			p.limits.Bucket.Rate = tt.bucket
			w.s.state.FillBucket(w.clock.t, 256)
			f.window = 0
			w.ack(10 * ms)
			log := track.NewLog(0, nil)
			for range 10 {
				w.grow(log, 1000)
			}
			_, important := w.stream(w.subscribe(), log)
			_, least := w.stream(w.subscribe(func(c *SubscriptionConfig) { c.Priority = 129 }), log)
			w.run()
			w.sleep(300 * ms)
			require.Empty(t, least())
			w.clock.advance(300 * ms)
			w.sleep(policyInterval)
			if tt.ends {
				require.Len(t, least(), 1)
				require.Equal(t, Dropped, least()[0].Outcome)
			} else {
				require.Empty(t, least())
			}
			require.Empty(t, important())
		})
	}
}

func TestBudget(t *testing.T) {
	const audio, key, delta, extra = Level(0x0100), Level(0x8000), Level(0x8010), Level(0xff00)
	var p Budget
	now, left := clock.Time(time.Hour), uint64(0)
	rtt := 20 * ms
	ask := func(d time.Duration, age time.Duration, declined uint64) (l Limits) {
		for range d / policyInterval {
			now, left = now.Add(policyInterval), left+1000
			l = p.Decide(now, Load{
				State: congestion.State{Arrived: left, SRTT: 20 * ms, MinRTT: rtt}, Declined: declined,
				Levels: []Backlog{
					{Level: 1}, // of which nothing comes any more
					{Level: audio, Bytes: 1}, {Level: key, Age: age, Bytes: 10}, {Level: delta, Bytes: 1},
					{Level: extra, Bytes: 1},
				},
			})
		}
		return l
	}
	all := ask(5*time.Second, 0, 0)
	require.False(t, all.hold(), "nothing is late")
	require.Equal(t, 400*ms, all.GroupDeadline)
	cut := ask(policyInterval, time.Second, 0)
	require.Equal(t, [4]uint16{uint16(audio), uint16(key), uint16(delta), uint16(delta)}, cut.Bucket.Bounds)
	require.InDelta(t, 97_000, cut.Bucket.Rate, 10)
	require.Equal(t, LowestPriority, cut.Threshold)
	shrunk := ask(time.Second, time.Second, 0)
	require.Less(t, shrunk.Bucket.Rate, cut.Bucket.Rate)
	require.GreaterOrEqual(t, ask(time.Minute, time.Second, 0).Bucket.Rate, int64(77_000), "not without an end")
	rtt = time.Hour
	require.Less(t, ask(policyInterval, 0, 0).Bucket.Rate, int64(90_000), "what arrives was sent before data waited")
	rtt = 20 * ms
	require.InDelta(t, 97_000, ask(policyInterval, 0, 0).Bucket.Rate, 10, "what waits shows what the path carries")
	var rates []int64
	for i := range uint64(3) {
		rates = append(rates, ask(1100*ms, 0, i+1).Bucket.Rate)
	}
	require.IsIncreasing(t, rates)
	require.False(t, func() bool { l := ask(5*time.Second, 0, 3); return l.hold() }(), "nothing is declined any more")

	path := congestion.State{Window: 100_000, SRTT: 100 * ms}
	var single Budget
	for range 100 {
		now = now.Add(policyInterval)
		l := single.Decide(now, Load{State: path, Levels: []Backlog{{Level: key, Age: time.Hour, Bytes: 1}}})
		require.False(t, l.hold(), "to drop others would not help the most important level")
	}

	var away Budget // a path that carries nothing for a while
	for range 100 {
		now = now.Add(policyInterval)
		l := away.Decide(now, Load{
			State:  path,
			Levels: []Backlog{{Level: audio, Bytes: 1}, {Level: key, Age: time.Hour, Bytes: 1}},
		})
		require.Equal(t, away.active, l.Bucket.Rate >= 200_000, "the window says what it may carry afterwards")
	}
	require.True(t, away.active)

	var gone Budget // nothing is acknowledged
	for range 3000 {
		now = now.Add(policyInterval)
		l := gone.Decide(now, Load{
			State: congestion.State{Window: 100_000, InFlight: 1000, SRTT: 100 * ms},
			Levels: []Backlog{
				{Level: audio, Bytes: 1}, {Level: key, Age: time.Hour, Bytes: 1},
				{Level: delta, Age: time.Hour, Bytes: 1},
			},
		})
		require.False(t, l.hold(), "a path that is away is not slow")
	}

	var back Budget // the last RTT was as long as the path was away, and what was sent then is lost
	for i := range int64(90) {
		now = now.Add(policyInterval)
		l := back.Decide(now, Load{
			State:  congestion.State{Window: 3000, InFlight: 3000, SRTT: 120 * ms, RTTVar: 180 * ms, MinRTT: ms},
			Levels: []Backlog{{Level: key, Age: time.Second, Bytes: 1000 * i}},
		})
		require.Zero(t, l.GroupDeadline)
	}

	var shut Budget // the peer gives no credit any more, so that nothing is in flight
	for i := range uint64(3000) {
		now = now.Add(policyInterval)
		path.Arrived = min(1000*i, 10_000)
		shut.Decide(now, Load{State: path, Levels: []Backlog{{Level: audio, Bytes: 1000}}})
		require.GreaterOrEqual(t, shut.delay(), budgetDelay)
		require.LessOrEqual(t, shut.delay(), budgetDelay+maxBurst)
	}

	var early Budget // there is no RTT yet
	for range 100 {
		now = now.Add(policyInterval)
		l := early.Decide(now, Load{
			Levels: []Backlog{{Level: audio, Bytes: 1}, {Level: key, Age: time.Hour, Bytes: 1}},
		})
		require.False(t, l.hold())
	}
}

// Levels without an end are not all remembered, and all have a class.
func TestBudgetLevels(t *testing.T) {
	var p Budget
	now := clock.Time(time.Hour)
	for i := range 1000 {
		now = now.Add(policyInterval)
		l := p.Decide(now, Load{
			State:  congestion.State{SRTT: 20 * ms},
			Levels: []Backlog{{Level: 1}, {Level: Level(2 + i), Age: time.Minute, Bytes: 1}},
		})
		require.LessOrEqual(t, len(p.load.levels), maxLevels)
		require.Equal(t, p.active, l.Bucket.Bounds != [4]uint16{})
	}
	require.True(t, p.active)
}
