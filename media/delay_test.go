package media

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
	"sluice/internal/delay"
	"sluice/moqt"
	"sluice/track"
)

// incoming is a publisher's stream, whose packets come on the connection of a world.
type incoming struct {
	w      *world
	source *track.Source
	next   []byte
	log    *track.Log // once an object has come
}

func newIncoming(w *world) *incoming {
	in := &incoming{w: w}
	opened := func(s *track.Segment) { in.log = s.Log }
	in.source = track.NewCache(track.CacheConfig{}).NewTrack(opened).NewSource(track.SourceConfig{
		Header: moqt.SubgroupHeader{FirstObject: true}, Received: w.s.LastReceived, Cancel: func() {},
	})
	return in
}

// Read implements [io.Reader].
func (in *incoming) Read(p []byte) (n int, err error) {
	n = copy(p, in.next)
	in.next = in.next[n:]
	return n, nil
}

// receive brings bytes of the stream in a packet that was read before age.
func (in *incoming) receive(b []byte, age time.Duration) {
	in.w.s.Received(1, 0, in.w.clock.Wall().Add(-age))
	for in.next = b; len(in.next) > 0; {
		require.NoError(in.w.t, in.source.Read(in))
	}
}

// object is an object whose id follows the id of the object before.
func object(size int) []byte {
	e := moqt.NewSubgroupEncoder(moqt.DataLayout1, moqt.SubgroupHeader{})
	b, err := e.AppendObject(nil, moqt.ObjectHeader{PayloadLength: uint64(size)})
	if err != nil {
		panic(err)
	}
	return append(b, make([]byte, size)...)
}

// measured returns the delays that were measured since it was called last, by the start of their bin.
func (w *world) measured() map[time.Duration]uint64 {
	h, all := w.loop.Delays(), make(map[time.Duration]uint64)
	w.shard.delays = delay.Recorder{}
	for bin, n := range h.Bins {
		if n > 0 {
			all[delay.Start(bin)] = n
		}
	}
	return all
}

// TestDelays sends what came some time ago.
func TestDelays(t *testing.T) {
	const one, two, three = 1 << 20, 1 << 21, 3 << 20 // where bins start, in nanoseconds
	w := newWorld(t)
	in := newIncoming(w)
	sub := w.subscribe()
	w.clock.advance(time.Second)
	in.receive(object(5000), two)
	st, _ := w.stream(sub, in.log)
	require.Len(t, w.run(), 5)
	require.Empty(t, w.measured(), "nobody wants to know")
	w.ack(0)

	w.loop.Measure(true)
	in.receive(object(3000), two)
	require.Len(t, w.run(), 3)
	require.Equal(t, map[time.Duration]uint64{two: 3}, w.measured())

	in.receive(object(1000), three)
	in.receive(object(1000), one)
	require.Len(t, w.run(), 2)
	require.Equal(t, map[time.Duration]uint64{three: 1, one: 1}, w.measured(), "the oldest byte of a packet counts")
	w.ack(10 * ms)
	in.receive(object(4000), one)
	sent := w.run()
	require.Len(t, sent, 4)
	w.measured()
	w.ackNumbers(sent[1].number, sent[2].number, sent[3].number)
	require.Len(t, w.run(), 1)
	require.NotZero(t, w.s.Stats().Retransmissions)
	require.Empty(t, w.measured(), "it has been sent before")

	late, _ := w.stream(w.subscribe(), in.log)
	for len(w.run()) > 0 {
		w.ack(10 * ms)
	}
	require.Zero(t, late.log.End()-late.offset()+int64(len("prefix")), "all was sent")
	require.Empty(t, w.measured(), "it came before the subscriber")
	in.receive(object(100), 0)
	require.Len(t, w.run(), 2)
	require.Equal(t, map[time.Duration]uint64{0: 2}, w.measured())

	w.loop.Measure(false)
	in.receive(object(100), two)
	require.Len(t, w.run(), 2)
	require.Empty(t, w.measured())
	require.NotNil(t, st.arrivals.Load())
	require.Same(t, st.arrivals.Load(), late.arrivals.Load())
}

// TestArrivals has more marks than are kept: they become coarser, and delays never shorter.
func TestArrivals(t *testing.T) {
	var a arrivals
	require.Zero(t, a.of(0))
	a.note(5, 0)
	require.Zero(t, a.of(0), "a time that is not known")
	for i := range int64(10 * maxMarks) {
		a.note(10*(i+1), clock.Time(1+i))
		a.note(10*(i+1), clock.Time(2+i)) // nothing has come
		require.LessOrEqual(t, len(a.marks), maxMarks)
	}
	last := int64(10*maxMarks - 1)
	require.Equal(t, clock.Time(1+last), a.of(10*last+9))
	require.Zero(t, a.of(10*last+10), "it has not come")
	before := clock.Time(0)
	for i := range last {
		at := a.of(10*i + 3)
		require.LessOrEqual(t, at, clock.Time(1+i))
		require.GreaterOrEqual(t, at, before)
		before = at
	}
	require.Equal(t, clock.Time(1), a.of(0))
}
