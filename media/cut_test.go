package media

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/moqt"
	"sluice/track"
)

// breaking is a subgroup whose streams break off. Log offsets are the same for all: a publisher's.
type breaking struct {
	t      *testing.T
	cache  *track.Cache
	track  *track.Track
	log    *track.Log // of the first stream
	all    []byte
	ends   []int64 // of the objects
	source *track.Source
}

var brokenHeader = moqt.SubgroupHeader{GroupID: 1, FirstObject: true}

// newBreaking returns a subgroup with objects of these sizes.
func newBreaking(t *testing.T, sizes ...int) *breaking {
	b := &breaking{t: t, cache: track.NewCache(track.CacheConfig{Grace: time.Minute})}
	b.track = b.cache.NewTrack(func(s *track.Segment) {
		if b.log == nil {
			b.log = s.Log
		}
	})
	e := moqt.NewSubgroupEncoder(moqt.DataLayout1, brokenHeader)
	for id, size := range sizes {
		var err error
		b.all, err = e.AppendObject(b.all, moqt.ObjectHeader{ObjectID: uint64(id), PayloadLength: uint64(size)})
		require.NoError(t, err)
		b.all = append(b.all, testBytes(int64(len(b.all)), size)...)
		b.ends = append(b.ends, int64(len(b.all)))
	}
	return b
}

// publish is the next stream, which brings the bytes up to an offset.
func (b *breaking) publish(to int64) { b.publishAs(nil, 0, to) }

// publishAs is publish for a stream with an owner, whose objects begin at an offset.
func (b *breaking) publishAs(owner any, start, to int64) {
	b.source = b.track.NewSource(track.SourceConfig{
		Header: brokenHeader, Priority: 128, Start: start, Owner: owner, Cancel: func() {},
	})
	b.bring(b.all[:to])
}

// bring brings more bytes of the stream.
func (b *breaking) bring(p []byte) {
	for r := bytes.NewReader(p); r.Len() > 0; {
		require.NoError(b.t, b.source.Read(r))
	}
}

func (b *breaking) finish() {
	require.Error(b.t, b.source.Read(bytes.NewReader(nil)))
	require.Equal(b.t, track.Finished, b.state())
}

func (b *breaking) cut() { require.NoError(b.t, b.source.Cut()) }

func (b *breaking) state() track.State {
	s, _ := b.log.State()
	return s
}

// lose takes every n-th packet from the peer.
func (w *world) lose(packets []*wirePacket, n int64) {
	for _, p := range packets {
		if n > 0 && p.number%n == 0 && p.frame&^0x07 == 0x08 {
			w.peer.forget(p.number)
			w.peer.stream(p.id).have.remove(p.offset, p.offset+int64(len(p.data)))
		}
	}
}

// settle runs until all streams have ended. Every n-th packet with their bytes is lost.
func (w *world) settle(n int64) {
	for range 500 {
		w.lose(w.run(), n)
		w.ack(time10)
		w.lose(w.sleep(time.Second), n)
		if len(w.s.streams.all) == 0 {
			return
		}
	}
}

// A subscriber whose window is small gets all whole objects that have come before it is told that no more follow.
func TestWholeObjectsPrecedeResets(t *testing.T) {
	sizes := []int{50_000, 50_000, 50_000, 50_000}
	for name, tt := range map[string]struct {
		cut  func(ends []int64) int64 // where the stream breaks off
		want int                      // objects
	}{
		"after an object":      {func(ends []int64) int64 { return ends[2] }, 3},
		"within an object":     {func(ends []int64) int64 { return ends[2] + 20_000 }, 3},
		"within the first one": {func(ends []int64) int64 { return ends[0] - 1 }, 0},
	} {
		for how, end := range map[string]func(*breaking, *Subscription){
			"reset":           func(b *breaking, _ *Subscription) { require.NoError(t, b.source.Close(9)) },
			"cut, given up":   func(b *breaking, _ *Subscription) { b.cut(); b.track.Close(); b.cache.Sweep() },
			"cut, no waiting": func(b *breaking, sub *Subscription) { b.cut(); sub.Finish(9) },
			"no waiting, cut": func(b *breaking, sub *Subscription) { sub.Finish(9); b.cut() },
		} {
			for _, loss := range []int64{0, 3} {
				t.Run(fmt.Sprint(name, ", ", how, ", one of ", loss, " lost"), func(t *testing.T) {
					w, b := newWorld(t), newBreaking(t, sizes...)
					b.publish(tt.cut(b.ends))
					sub := w.subscribe()
					_, results := w.stream(sub, b.log)
					w.lose(w.run(), loss) // as much as the window allows
					end(b, sub)
					w.settle(loss)
					require.Len(t, results(), 1)
					require.NotEqual(t, Delivered, results()[0].Outcome, "a FIN would tell that nothing is missing")
					st := w.peer.stream(3)
					require.True(t, st.reset)
					whole := int64(len("prefix"))
					if tt.want > 0 {
						whole += b.ends[tt.want-1]
					}
					require.True(t, st.have.contains(0, whole), "%v of %d", st.have, whole)
					require.Equal(t, append([]byte("prefix"), b.all...)[:whole], st.data[:whole])
				})
			}
		}
	}
}

// A stream whose log was cut stays open, and goes on with what another publisher's stream brings.
func TestStreamsOutliveCuts(t *testing.T) {
	sizes := []int{3_000, 3_000, 3_000}
	for name, cut := range map[string]func(ends []int64) int64{
		"after an object":  func(ends []int64) int64 { return ends[1] },
		"within an object": func(ends []int64) int64 { return ends[1] + 1500 },
	} {
		t.Run(name, func(t *testing.T) {
			w, b := newWorld(t), newBreaking(t, sizes...)
			at := cut(b.ends)
			b.publish(at)
			_, early := w.stream(w.subscribe(), b.log)
			w.run()
			b.cut()
			_, late := w.stream(w.subscribe(), b.log)
			require.Len(t, w.shard.feeds, 1)
			for range 5 {
				w.run()
				w.ack(time10)
			}
			require.True(t, w.peer.stream(3).have.contains(0, 6+at))
			require.True(t, w.peer.stream(7).have.contains(0, 6+b.ends[1]))
			require.Len(t, w.peer.stream(7).data, int(6+b.ends[1]), "the rest of an object may never come")
			require.Empty(t, append(early(), late()...))
			b.publish(int64(len(b.all)))
			b.finish()
			w.settle(0)
			for i, results := range [][]Result{early(), late()} {
				require.Equal(t, Delivered, results[0].Outcome)
				require.Equal(t, append([]byte("prefix"), b.all...), w.peer.bytes(int64(3+4*i)))
			}
		})
	}
}

// The forwarder has its part in a stream until the publisher's stream breaks off, and then no more: what follows in the
// log may be other bytes.
func TestForwarderLeavesAtCuts(t *testing.T) {
	prefix := int64(len(testPrefix))
	for name, tt := range map[string]struct {
		ahead int64 // by how much the forwarder is ahead of what user space has received
		lost  bool  // its first packet
	}{
		"behind the log":                      {ahead: -100},
		"as far as the log":                   {ahead: 0},
		"as far as the log, with a loss":      {ahead: 0, lost: true},
		"ahead of the log":                    {ahead: 100},
		"ahead of the log, with a loss":       {ahead: 100, lost: true},
		"whole objects ahead, which are lost": {ahead: 900, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := withForwarder(t)
			b := newBreaking(t, 500, 500, 500, 500)
			at := b.ends[1]
			shared := f.open(prefix, 0)
			first := f.send(shared, prefix, 300, false)
			second := f.send(shared, 0, at+tt.ahead, false)
			b.publish(at)
			_, results := w.adopt(b.log)
			if tt.ahead < 0 {
				w.run()
			}
			b.cut()
			w.run()
			next, closed := shared.Cursor()
			require.True(t, closed, "the forwarder claims nothing more")
			require.EqualValues(t, claim.StreamClosed, shared.Phase.Load())
			require.Equal(t, []*claim.StreamState{shared}, f.freed)
			if tt.lost {
				w.ackNumbers(second)
				for range 3 {
					w.sleep(time.Second)
				}
			} else {
				w.ackNumbers(first, second)
			}
			b.publish(int64(len(b.all)))
			b.finish()
			for range 5 {
				w.ackNumbers(append(w.numbers(), second)...)
				w.sleep(time.Second)
			}
			got := w.peer.stream(int64(shared.ID.Load()))
			require.Len(t, results(), 1)
			if tt.ahead <= 0 {
				require.Equal(t, Delivered, results()[0].Outcome)
				require.Equal(t, b.all[next:], got.data[prefix+next:])
				require.Equal(t, prefix+int64(len(b.all)), got.final)
				return
			}
			require.Equal(t, Severed, results()[0].Outcome)
			require.Equal(t, prefix+results()[0].Sent, got.final)
			require.Equal(t, prefix+at+tt.ahead, got.final)
			require.LessOrEqual(t, len(got.data), int(prefix+at), "what the log has there are another stream's bytes")
			if tt.lost {
				require.Equal(t, append([]byte(testPrefix), b.all[:300]...), got.data[:prefix+300])
			}
		})
	}
}

// The forwarder goes on with a stream when another publisher's stream goes on with the log: with the offsets of that
// stream, behind the first object that it has brought a part of, and until it breaks off, too.
func TestForwarderGoesOn(t *testing.T) {
	const start, next = 70, 1000 // of the second stream and the third one
	prefix := int64(len(testPrefix))
	w, f := withForwarder(t)
	b := newBreaking(t, 500, 500, 500, 500, 500, 500)
	numbers := []int64{f.send(f.open(prefix, 0), prefix, 300, false)}
	b.publish(b.ends[0] + 10)
	var asked []any
	_, results := w.stream(w.subscribe(), b.log, func(c *StreamConfig) {
		c.PublisherStream = &claim.PublisherStream{Prefix: []byte(testPrefix), Start: b.log.First.From}
		c.GoesOn = func(o *track.Origin) *claim.PublisherStream {
			asked = append(asked, o.Owner)
			f.opened, f.adopted = new(claim.StreamState), false
			return &claim.PublisherStream{}
		}
	})
	w.run()
	b.cut()
	b.publishAs("second", start, b.ends[1])
	for range 2 { // the second time for what the sender has asked itself to do
		w.run()
	}
	require.Equal(t, []any{"second"}, asked)
	second := f.opened
	at, closed := second.Cursor()
	require.False(t, closed)
	require.Equal(t, start+b.ends[1], at, "an offset of the second stream")
	require.EqualValues(t, claim.StreamOpen, second.Phase.Load())
	require.Equal(t, prefix-start, second.Shift())
	numbers = append(numbers, f.send(second, 0, start+b.ends[2], false))
	b.bring(b.all[b.ends[1]:b.ends[3]])
	w.run()
	at, _ = second.Cursor()
	require.Equal(t, start+b.ends[3], at, "the media sender sends what the forwarder has not")

	b.cut()
	b.publishAs("third", next, b.ends[4])
	for range 2 {
		w.run()
	}
	require.Equal(t, []any{"second", "third"}, asked)
	_, closed = second.Cursor()
	require.True(t, closed)
	require.Contains(t, f.freed, second)
	third := f.opened
	numbers = append(numbers, f.send(third, 0, next+b.ends[4]+100, false)) // ahead of the log
	b.cut()
	b.publishAs("fourth", 0, int64(len(b.all)))
	for range 5 {
		w.run()
		w.ackNumbers(append(w.numbers(), numbers...)...)
	}
	require.Len(t, results(), 1)
	require.Equal(t, Severed, results()[0].Outcome)
	require.Equal(t, b.ends[4], results()[0].Severed)
	require.Equal(t, []any{"second", "third"}, asked, "the stream ends before what the fourth one has brought")
	got := w.peer.stream(int64(third.ID.Load()))
	for _, p := range [][2]int64{{300, b.ends[1]}, {b.ends[2], b.ends[4]}} { // the media sender's
		require.Equal(t, b.all[p[0]:p[1]], got.data[prefix+p[0]:prefix+p[1]])
	}
}

// The other stream breaks off, too, and a third one goes on, while the forwarder is asked about it.
func TestForwarderIsAskedTooLate(t *testing.T) {
	w, f := withForwarder(t)
	b := newBreaking(t, 500, 500, 500)
	b.publish(b.ends[0])
	f.opened, f.adopted = nil, false
	late := new(claim.StreamState)
	w.stream(w.subscribe(), b.log, func(c *StreamConfig) {
		c.GoesOn = func(o *track.Origin) *claim.PublisherStream {
			f.opened = nil
			if o.Owner == "second" {
				b.cut()
				b.publishAs("third", 7, b.ends[2])
				f.opened = late
			}
			return &claim.PublisherStream{}
		}
	})
	w.run()
	b.cut()
	b.publishAs("second", 70, b.ends[1])
	for range 3 {
		w.run()
	}
	require.Equal(t, []*claim.StreamState{late}, f.freed)
	require.Zero(t, late.Next.Load())
	require.Equal(t, b.all, w.peer.stream(3).data[len("prefix"):])
}

// numbers returns the packets that have arrived at the peer.
func (w *world) numbers() (all []int64) {
	for _, r := range w.peer.received {
		for n := r.from; n < r.to; n++ {
			all = append(all, n)
		}
	}
	return all
}

// A shared stream takes nothing beyond the cut from the log before the forwarder has left it.
func TestForwarderLeavesFirst(t *testing.T) {
	w, f := withForwarder(t)
	b := newBreaking(t, 500, 500, 500)
	prefix := int64(len(testPrefix))
	shared := f.open(prefix, 0)
	f.send(shared, prefix, b.ends[0], false)
	b.publish(b.ends[0] + 10)
	st, _ := w.adopt(b.log)
	b.cut()
	b.publish(int64(len(b.all))) // before the media sender has looked
	w.s.mu.Lock()
	end, _, _ := st.fresh()
	w.s.mu.Unlock()
	require.Equal(t, b.ends[0]+10, end)
	require.True(t, shared.Claim(b.ends[0], b.ends[0]+20, false), "the forwarder may still send the first stream's")
	w.run()
	require.Empty(t, w.peer.streams, "the others' bytes do not follow")
}

// What the forwarder has claimed, and commits when nobody in user space is awake, is repaired like all else.
func TestProbesForWhatIsBeingCommitted(t *testing.T) {
	w, f := withForwarder(t)
	prefix := int64(len(testPrefix))
	shared := f.open(prefix, 0)
	first := f.send(shared, prefix, 100, false)
	log := newTestLog(0, 200)
	w.adopt(log)
	number, _, ok := f.state.Begin(f.ring)
	require.True(t, ok)
	require.True(t, shared.Claim(100, 200, false))
	w.ackNumbers(first)
	w.run()
	info := claim.NewInfo(uint32(shared.ID.Load()/4), 100, 40, claim.KindStream)
	f.state.Commit(f.ring, number, f.clock.Now(), prefix+100, info)
	var repaired []byte
	for range 5 {
		repaired = append(repaired, streamData(w.sleep(10*time.Second))...)
	}
	require.NotEmpty(t, repaired, "no alarm")
	require.Equal(t, testBytes(100, 100), repaired[:100])
}

// TestStreamBehindASeveredLog opens a stream behind the offset at which its log was severed, with a state of the
// forwarder, which still knows the publisher's stream, and without.
func TestStreamBehindASeveredLog(t *testing.T) {
	for name, shared := range map[string]bool{"without a state of the forwarder": false, "with one": true} {
		t.Run(name, func(t *testing.T) {
			w, f := withForwarder(t)
			b := newBreaking(t, 500, 500, 500, 500)
			b.publish(b.ends[1])
			b.cut()
			b.publish(int64(len(b.all))) // another stream goes on
			at, ok := b.log.First.Severed()
			require.True(t, ok)
			require.Equal(t, b.ends[1], at)
			if shared {
				f.opened, f.adopted = new(claim.StreamState), false
			}
			o, ok := b.log.Covering(at)
			require.True(t, ok)
			w.stream(w.subscribe(), b.log, func(c *StreamConfig) {
				c.Prefix, c.Start = []byte("rest"), o.IDEnd
				c.PublisherStream = &claim.PublisherStream{Prefix: []byte(testPrefix), Start: b.log.First.From}
			})
			require.Len(t, w.run(), 1)
		})
	}
}

// TestNoFINWhereALogWasSevered has a turn of the sender between the end of a log that another stream has gone on with,
// and the feed's look at it. The stream that the forwarder shares does not end where the log was severed.
func TestNoFINWhereALogWasSevered(t *testing.T) {
	w, f := withForwarder(t)
	b := newBreaking(t, 500, 500, 500)
	prefix := int64(len(testPrefix))
	shared := f.open(prefix, 0)
	f.send(shared, prefix, b.ends[0], false)
	b.publish(b.ends[0] + 100)
	st, _ := w.adopt(b.log)
	b.cut()
	b.publish(int64(len(b.all)))
	b.finish()
	w.s.mu.Lock()
	_, last, _ := st.fresh()
	w.s.mu.Unlock()
	require.False(t, last)
}

// TestFINBeforeACut has the forwarder send FIN, of which user space has not read when the log is cut. FIN is lost, and
// another stream goes on with the log. Neither is sent without end, and nothing follows FIN.
func TestFINBeforeACut(t *testing.T) {
	w, f := withForwarder(t)
	b := newBreaking(t, 500, 500, 500)
	prefix := int64(len(testPrefix))
	shared := f.open(prefix, 0)
	one := f.send(shared, prefix, b.ends[0], false)
	f.send(shared, 0, b.ends[0], true)
	b.publish(b.ends[0])
	w.adopt(b.log)
	b.cut()
	w.run()
	before := w.s.state.Packets.Load()
	for range 10 {
		w.sleep(time.Second)
		w.ackNumbers(append(w.numbers(), one)...)
	}
	require.Less(t, w.s.state.Packets.Load()-before, uint64(20))
	b.publish(int64(len(b.all)))
	b.finish()
	for range 5 {
		w.run()
		w.ackNumbers(append(w.numbers(), one)...)
		w.sleep(time.Second)
	}
	require.LessOrEqual(t, int64(len(w.peer.stream(int64(shared.ID.Load())).data)), prefix+b.ends[0])
}
