package media

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
	"sluice/track"
)

// video is mock video on a simulated path: layers with falling priority, and audio before them.
type video struct {
	*simulation
	pictures, sound *Subscription
	layers          []videoLayer
	group, frames   int // frames of a group, and of all
	logs            map[string]*track.Log
	awaited         map[string][]videoFrame // by the name of their stream
	looked          map[int64]int64         // how far downstream streams had come
	came, audio     map[int]time.Duration   // ages of the frames that came
	ended           int                     // streams that the policy has ended
	pause, resume   time.Duration           // what is due meanwhile is published afterwards
}

// videoFrame is a frame that ends at a log offset.
type videoFrame struct {
	n   int
	end int64
}

// videoLayer has the frames of a group that has returns true for.
type videoLayer struct {
	priority uint8
	size     int
	has      func(object int) bool
}

const (
	frameInterval = 40 * time.Millisecond
	audioPriority = 16
	audioSize     = 400
	nameLen       = 16 // of a stream, which is its prefix
)

// temporalLayers are a key frame, and three layers of frames of a size.
func temporalLayers(size int) []videoLayer {
	return []videoLayer{
		{64, 5 * size, func(o int) bool { return o == 0 }},
		{96, size, func(o int) bool { return o > 0 && o%4 == 0 }},
		{128, size, func(o int) bool { return o%4 == 2 }},
		{160, size, func(o int) bool { return o%2 == 1 }},
	}
}

func newVideo(m *simulation, layers []videoLayer, group, frames int) *video {
	return &video{
		simulation: m, pictures: m.subscribe(), sound: m.subscribe(), layers: layers, group: group, frames: frames,
		logs: make(map[string]*track.Log), awaited: make(map[string][]videoFrame), looked: make(map[int64]int64),
		came: make(map[int]time.Duration), audio: make(map[int]time.Duration),
	}
}

// run publishes all frames and notes what comes.
func (v *video) run() {
	for n := range v.frames {
		at := time.Duration(n) * frameInterval
		if v.resume > 0 && at > v.pause {
			at = max(at, v.resume)
		}
		v.after(at, func() { v.publish(n) })
	}
	begin := v.clock.t
	for v.clock.t.Sub(begin) < time.Duration(v.frames)*frameInterval+3*time.Second {
		next := v.clock.t.Add(5 * time.Millisecond)
		v.advance(next.Sub(v.clock.t))
		v.clock.t = next
		v.look(begin)
	}
}

// publish publishes a frame, and the audio that belongs to it. A layer of a group is a stream.
func (v *video) publish(n int) {
	g, o := n/v.group, n%v.group
	sound := fmt.Sprintf("audio %d 0", n)
	v.object(v.sound, sound, uint64(n), n, audioSize, audioPriority)
	v.logs[sound].Finish()
	for i, l := range v.layers {
		name := fmt.Sprintf("video %d %d", g, i)
		if l.has(o) {
			v.object(v.pictures, name, uint64(g), n, l.size, l.priority)
		}
		if log := v.logs[name]; log != nil && o == v.group-1 {
			log.Finish()
		}
	}
}

// object adds an object to a stream, which it opens if it is the first one.
func (v *video) object(sub *Subscription, name string, group uint64, n, size int, priority uint8) {
	log := v.logs[name]
	if log == nil {
		log = track.NewLog(0, nil)
		v.logs[name] = log
		defer v.stream(sub, log, func(c *StreamConfig) {
			c.Prefix = fmt.Appendf(nil, "%-*s", nameLen, name)
			c.Group, c.Subgroup, c.Priority = group, uint64(priority), priority
			c.OnDone = func(r Result) { v.ended += count(r.Outcome == Dropped || r.Outcome == Late) }
		})
	}
	at := log.End()
	end := at + int64(size)
	require.NoError(v.t, log.AddObject(track.Object{
		ID: uint64(n), Start: at, IDEnd: at + 1, PayloadStart: at + 2, End: end, Received: v.clock.Wall(),
	}))
	log.Append(testBytes(at, size))
	v.awaited[name] = append(v.awaited[name], videoFrame{n, end})
}

// look notes the frames that have come since the last look.
func (v *video) look(begin clock.Time) {
	now := v.clock.t.Sub(begin)
	for id, st := range v.peer.streams {
		if len(st.have) == 0 || st.have[0].from != 0 || st.have[0].to < nameLen || st.have[0].to == v.looked[id] {
			continue
		}
		v.looked[id] = st.have[0].to
		name := strings.TrimSpace(string(st.data[:nameLen]))
		ages := v.came
		if strings.HasPrefix(name, "audio") {
			ages = v.audio
		}
		for all := v.awaited[name]; len(all) > 0 && all[0].end <= v.looked[id]-nameLen; all = v.awaited[name] {
			ages[all[0].n] = now - time.Duration(all[0].n)*frameInterval
			v.awaited[name] = all[1:]
		}
	}
}

// score is what a viewer would have seen.
type score struct {
	playable, keys float64       // shares of the frames, and of the key frames
	age, audio     time.Duration // p90 of the frames that came, and the longest of audio
}

// depends returns the frame that a frame needs.
func (v *video) depends(n int) int {
	o := n % v.group
	switch {
	case len(v.layers) == 4 && o%4 == 0:
		return n - 4
	case len(v.layers) == 4 && o%2 == 0:
		return n - 2
	}
	return n - 1
}

// score looks at the frames from one on. A frame can be shown if it came within a second, with all that it needs.
func (v *video) score(from int) (s score) {
	var ages []time.Duration
	shown, keys, keysShown := 0, 0, 0
	ok := make(map[int]bool)
	for n := from; n < v.frames; n++ {
		key, need := n%v.group == 0, v.depends(n)
		age, came := v.came[n]
		if came {
			ages = append(ages, age)
		}
		ok[n] = came && age <= time.Second && (key || need < from || ok[need])
		shown += count(ok[n])
		keys += count(key)
		keysShown += count(key && ok[n])
		heard, came := v.audio[n]
		require.True(v.t, came, "audio of frame %d", n)
		s.audio = max(s.audio, heard)
	}
	slices.Sort(ages)
	s.playable, s.keys = float64(shown)/float64(v.frames-from), float64(keysShown)/float64(keys)
	s.age = ages[len(ages)*9/10]
	return s
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// TestBudgetVideo plays video over paths that carry a part of it. None of the limits is tight: with other policies,
// most of these cases show hardly anything.
func TestBudgetVideo(t *testing.T) {
	const (
		delta = 9259 // bytes, for 2 Mbit/s
		frame = 10_000
	)
	key := func(o int) bool { return o == 0 }
	layers := map[string][]videoLayer{
		"layers": temporalLayers(delta),
		"keys":   {{64, 5 * delta, key}, {96, delta, func(o int) bool { return o > 0 }}},
		"single": {{64, frame, func(int) bool { return true }}},
	}
	for _, tt := range []struct {
		layers   string
		part     float64 // of the video's rate
		playable float64
		age      time.Duration // p90
	}{
		{"layers", .4, .2, 1500 * time.Millisecond},
		{"layers", .6, .45, 500 * time.Millisecond},
		{"layers", .8, .5, 400 * time.Millisecond},
		{"keys", .6, .25, 1500 * time.Millisecond},
		{"single", .6, .45, 1200 * time.Millisecond},
		{"layers", 1.1, 1, 300 * time.Millisecond},
		{"keys", 1.1, 1, 300 * time.Millisecond},
		{"single", 1.1, 1, 100 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(tt.layers, " ", tt.part), func(t *testing.T) {
			t.Parallel()
			rate := int64(tt.part * 250_000)
			m := newSimulation(t, simConfig{delay: 10 * time.Millisecond, rate: rate, queue: int(rate / 20)},
				func(c *worldConfig) { c.sender.DropPolicy = new(Budget) })
			v := newVideo(m, layers[tt.layers], 50, 500)
			v.run()
			s := v.score(50)
			t.Logf("%+v, %d streams ended early, %d packets lost", s, v.ended, m.dropped)
			require.Equal(t, 1., s.keys)
			require.GreaterOrEqual(t, s.playable, tt.playable)
			require.Less(t, s.age, tt.age)
			require.Less(t, s.audio, 200*time.Millisecond)
			if tt.part > 1 {
				require.Zero(t, v.ended, "nothing is dropped on a path that carries all")
			} else {
				require.NotZero(t, v.ended)
			}
		})
	}
}

// away makes a path that carries nothing for some time.
func (m *simulation) away(from, length time.Duration) {
	was := m.cfg
	m.after(from, func() { m.cfg.loss, m.cfg.ackLoss = 1, 1 })
	m.after(from+length, func() { m.cfg = was })
}

// TestBudgetLosesNothing plays video over paths that carry all of it, but not at all times: nothing is dropped. With
// losses, little is: the window may be small when much waits.
func TestBudgetLosesNothing(t *testing.T) {
	const (
		delta  = 1600 // bytes, for 0.4 Mbit/s with the audio
		frames = 750
		begin  = 10 * time.Second
	)
	layers := map[string][]videoLayer{
		"layers": temporalLayers(delta),
		"single": {{128, delta, func(int) bool { return true }}},
	}
	clean := simConfig{delay: 20 * time.Millisecond, jitter: time.Millisecond}
	lossy := clean
	lossy.loss, lossy.ackLoss = .02, .02
	narrow := clean // three times as much as the video needs
	narrow.rate, narrow.queue = 150_000, 10_000
	far := lossy
	far.delay = 40 * time.Millisecond
	away := func(d time.Duration) func(*video) { return func(v *video) { v.away(begin, d) } }
	moves := func(v *video) {
		v.away(begin, 1500*time.Millisecond)
		v.after(begin+1500*time.Millisecond, func() { v.path("192.0.2.99:4433", testMTU) })
	}
	bursts := func(v *video) { v.pause, v.resume = begin, begin+2500*time.Millisecond } // the publisher was away
	for _, tt := range []struct {
		name  string
		path  simConfig
		event func(*video)
		least int // per cent of the frames that come
	}{
		{"losses", lossy, func(*video) {}, 98},
		{"a burst, losses", far, bursts, 85},
		{"away for 2 s", clean, away(2 * time.Second), 100},
		{"away for 2 s, losses", lossy, away(2 * time.Second), 98},
		{"away for 2 s, narrow", narrow, away(2 * time.Second), 100},
		{"away for 10 s", clean, away(10 * time.Second), 100},
		{"another address", clean, moves, 100},
		{"another address, losses", lossy, moves, 98},
	} {
		for name, l := range layers {
			t.Run(fmt.Sprint(tt.name, ", ", name), func(t *testing.T) {
				t.Parallel()
				const seeds = 3
				came := 0
				for seed := range uint64(seeds) {
					path := tt.path
					path.seed = seed
					m := newSimulation(t, path, func(c *worldConfig) { c.sender.DropPolicy = new(Budget) })
					// As a catalog: more important than all else, and never heard of again.
					m.stream(m.subscribe(func(c *SubscriptionConfig) { c.Priority = 1 }), newTestLog(0, 900))
					v := newVideo(m, l, 25, frames)
					tt.event(v)
					v.run()
					t.Logf("%d frames came, %d packets lost", len(v.came), m.dropped)
					came += len(v.came)
				}
				require.GreaterOrEqual(t, came, seeds*frames*tt.least/100)
			})
		}
	}
}

// TestBudgetReturns plays video over a path that is away for so long that it cannot carry afterwards what has waited.
// Soon audio and key frames are in time again, and then everything is.
func TestBudgetReturns(t *testing.T) {
	t.Parallel()
	const (
		delta, away, back = 9259, 10 * time.Second, 15 * time.Second
		// The sender notices by a probe, up to 4 s later.
		audioBack, allBack = int((back + 6*time.Second) / frameInterval), int((back + 12*time.Second) / frameInterval)
	)
	m := newSimulation(t, simConfig{delay: 20 * time.Millisecond, rate: 375_000, queue: 50_000}, func(c *worldConfig) {
		c.sender.DropPolicy = new(Budget)
	})
	v := newVideo(m, temporalLayers(delta), 50, 1000)
	m.away(back-away, away)
	v.run()
	for n := audioBack; n < v.frames; n++ {
		age, came := v.audio[n]
		require.True(t, came && age < time.Second, "audio of frame %d: %s", n, age)
		age, came = v.came[n]
		require.True(t, n < allBack && n%v.group != 0 || came && age < time.Second, "frame %d: %s", n, age)
	}
	require.NotZero(t, v.ended, "what was too late is not sent any more")
}
