package track

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// fakeClock is a fake clock.
type fakeClock struct{ t time.Time }

func (c *fakeClock) now() time.Time { return c.t }

// sink is a subscriber of everything: it notes the segments that are opened.
type sink struct {
	cache    *Cache
	track    *Track
	clock    fakeClock
	segments []*Segment
}

func newSink(cfg CacheConfig) *sink {
	k := &sink{clock: fakeClock{epoch}}
	cfg.Now = k.clock.now
	k.cache = NewCache(cfg)
	k.track = k.cache.NewTrack(func(s *Segment) { k.segments = append(k.segments, s) })
	return k
}

type testObject struct {
	id      uint64
	props   string
	payload string
	status  moqt.ObjectStatus
}

// received parses what a subscriber of the segment gets.
func received(t *testing.T, s *Segment) (objects []testObject) {
	t.Helper()
	first, ok := s.Log.Seek(s.First)
	require.True(t, ok)
	require.Equal(t, s.Start, first.Start)
	b := moqt.AppendVarint(nil, s.First) // the first id is re-encoded for subscribers
	b = append(b, readAll(t, s.Log, first.IDEnd)...)
	h := moqt.SubgroupHeader{GroupID: s.Group, HasProperties: s.HasProperties}
	p := moqt.NewSubgroupParser(moqt.DataLayout1, h, 0)
	for rest := b; ; {
		o, n, err := p.Next(rest)
		if err != nil {
			require.ErrorIs(t, err, moqt.ErrIncomplete)
			return objects
		}
		rest = rest[n:]
		k := testObject{o.ObjectID, string(o.Properties), string(rest[:min(len(rest), int(o.PayloadLength))]), o.Status}
		objects = append(objects, k)
		held, ok := s.Log.Seek(k.id)
		require.True(t, ok)
		require.Equal(t, k.id, held.ID)
		require.Equal(t, k.props, string(s.Log.properties(held)))
	}
}

// encode returns the bytes of a stream of objects, for a Source.
func encode(h moqt.SubgroupHeader, objects ...testObject) []byte {
	e := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
	var b []byte
	for _, o := range objects {
		var err error
		b, err = e.AppendObject(b, moqt.ObjectHeader{ObjectID: o.id, Properties: moqt.Properties(o.props),
			PayloadLength: uint64(len(o.payload)), Status: o.status})
		if err != nil {
			panic(err)
		}
		b = append(b, o.payload...)
	}
	return b
}

func object(id uint64) testObject {
	return testObject{id: id, payload: fmt.Sprintf("payload of %d", id)}
}

func objects(ids ...uint64) (os []testObject) {
	for _, id := range ids {
		os = append(os, object(id))
	}
	return os
}

func feed(s *Source, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	r := bytes.NewReader(b)
	for r.Len() > 0 {
		if err := s.Read(r); err != nil {
			return err
		}
	}
	return nil
}

func fin(s *Source) error {
	if err := s.Read(bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

var plain = moqt.SubgroupHeader{GroupID: 7, FirstObject: true}

func (k *sink) source(h moqt.SubgroupHeader) *Source {
	return k.track.NewSource(SourceConfig{Header: h, Priority: 128, Start: 5, Owner: k, Cancel: func() {}})
}

func TestSourceIsVerbatim(t *testing.T) {
	k := newSink(CacheConfig{})
	want := append(objects(300, 301, 305), testObject{id: 306, status: moqt.StatusEndOfGroup})
	b := encode(plain, want...)
	for cut := 1; cut < len(b); cut++ {
		k := newSink(CacheConfig{})
		s := k.source(plain)
		require.NoError(t, feed(s, b[:cut]))
		require.NoError(t, feed(s, b[cut:]))
		require.NoError(t, fin(s))
		require.Len(t, k.segments, 1)
		seg := k.segments[0]
		require.Equal(t, b, readAll(t, seg.Log, 5))
		require.Equal(t, want, received(t, seg))
		verbatim := Segment{
			Log: seg.Log, Group: 7, Priority: 128, First: 300, Start: 5, FirstObject: true, track: k.track,
		}
		require.Equal(t, verbatim, *seg)
		require.Equal(t, k, seg.Log.Origin().Owner)
		st, _ := seg.Log.State()
		require.Equal(t, Finished, st)
		require.Equal(t, moqt.Location{Group: 7, Object: 306}, *k.track.Largest())
	}
	require.Nil(t, k.track.Largest())
}

func TestOnlyCheckedBytesBecomeVisible(t *testing.T) {
	k := newSink(CacheConfig{})
	s := k.source(plain)
	b := encode(plain, objects(0, 1)...)
	first := len(encode(plain, object(0)))
	require.NoError(t, feed(s, b[:first+1])) // a part of the second header
	require.Equal(t, int64(5+first), k.segments[0].Log.End())
	require.NoError(t, feed(s, b[first+1:first+4])) // its header and a part of its payload
	require.Equal(t, int64(5+first+4), k.segments[0].Log.End())
	bad := append(b[first+4:], 0, 0, 9) // an unknown status
	var violation *moqt.ProtocolError
	require.ErrorAs(t, feed(s, bad), &violation)
	require.Equal(t, objects(0, 1), received(t, k.segments[0]))
	require.NoError(t, s.Close(3))
	st, code := k.segments[0].Log.State()
	require.Equal(t, []any{Reset, uint64(3)}, []any{st, code})
}

// A merge test plays steps of several publishers A, B, … of one subgroup and checks what subscribers get.
type mergeStep struct {
	who     int
	bytes   func(all []byte) []byte // what part of the stream comes
	end     string                  // "fin", "reset", "cut" or ""
	objects []testObject            // the stream, at the first step of who
	header  moqt.SubgroupHeader
}

func all(b []byte) []byte                             { return b }
func none([]byte) []byte                              { return nil }
func upTo(n int) func([]byte) []byte                  { return func(b []byte) []byte { return b[:n] } }
func after(n int) func([]byte) []byte                 { return func(b []byte) []byte { return b[n:] } }
func size(h moqt.SubgroupHeader, o ...testObject) int { return len(encode(h, o...)) }

func TestMerge(t *testing.T) {
	withProps := moqt.SubgroupHeader{GroupID: 7, FirstObject: true, HasProperties: true}
	p0 := size(plain, object(0))
	type want struct {
		objects []testObject
		state   State
	}
	tests := map[string]struct {
		steps []mergeStep
		want  []want
	}{
		"the second copy is dropped": {[]mergeStep{
			{who: 0, objects: objects(0, 1, 2), bytes: all},
			{who: 1, objects: objects(0, 1, 2), bytes: all, end: "fin"},
			{who: 0, bytes: none, end: "fin"},
		}, []want{{objects(0, 1, 2), Finished}}},
		"the second copy comes after the first has ended": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all, end: "fin"},
			{who: 1, objects: objects(0, 1), bytes: all, end: "fin"},
		}, []want{{objects(0, 1), Finished}}},
		"the second goes on where the first was reset": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all},
			{who: 1, objects: objects(0, 1, 2, 3), bytes: upTo(p0)},
			{who: 0, bytes: none, end: "reset"},
			{who: 1, bytes: after(p0), end: "fin"},
		}, []want{{objects(0, 1, 2, 3), Finished}}},
		"within an object": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: upTo(p0 + 5)},
			{who: 1, objects: objects(0, 1, 2), bytes: upTo(p0 + 3)},
			{who: 0, bytes: none, end: "reset"},
			{who: 1, bytes: after(p0 + 3), end: "fin"},
		}, []want{{objects(0, 1, 2), Finished}}},
		"within a header": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: upTo(p0 + 1)},
			{who: 1, objects: objects(0, 1, 2), bytes: upTo(4)},
			{who: 0, bytes: none, end: "reset"},
			{who: 1, bytes: after(4), end: "fin"},
		}, []want{{objects(0, 1, 2), Finished}}},
		"from a stream that ended long ago": {[]mergeStep{
			{who: 0, objects: objects(0, 1, 2), bytes: upTo(p0 + 4)},
			{who: 1, objects: objects(0, 1, 2), bytes: all, end: "fin"},
			{who: 0, bytes: none, end: "reset"},
		}, []want{{objects(0, 1, 2), Finished}}},
		"the first, being too slow, is compared after it was replaced": {[]mergeStep{
			{who: 0, objects: objects(0), bytes: all},
			{who: 1, objects: objects(0, 1), bytes: all},
			{who: 2, objects: objects(0, 1, 2), bytes: all},
			{who: 0, bytes: none, end: "reset"},
			{who: 1, bytes: none, end: "reset"},
			{who: 2, bytes: none, end: "fin"},
		}, []want{{objects(0, 1, 2), Finished}}},
		"an encoding with properties goes on from one without": {[]mergeStep{
			{who: 0, header: withProps, objects: []testObject{{0, "\x3e\x00", "x", 0}}, bytes: all},
			{who: 1, objects: objects(0, 1)[1:], bytes: none},
			{who: 1, bytes: all},
			{who: 0, bytes: none, end: "reset"},
			{who: 1, bytes: none, end: "fin"},
		}, []want{{[]testObject{{0, "\x3e\x00", "x", 0}, object(1)}, Finished}}},
		"but not the other way round": {[]mergeStep{
			{who: 0, objects: objects(0), bytes: all},
			{who: 1, header: withProps, objects: []testObject{{1, "\x3e\x00", "y", 0}}, bytes: all},
			{who: 0, bytes: none, end: "reset"},
			{who: 1, bytes: none, end: "fin"},
		}, []want{{objects(0), Reset}, {[]testObject{{1, "\x3e\x00", "y", 0}}, Finished}}},
		"a gap about which nothing is known needs a new stream": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all},
			{who: 1, objects: objects(4, 5), bytes: all},
			{who: 0, bytes: none, end: "reset"},
			{who: 1, bytes: none, end: "fin"},
		}, []want{{objects(0, 1), Reset}, {objects(4, 5), Finished}}},
		"a gap within one stream is none": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all},
			{who: 1, objects: objects(1, 5), bytes: all},
			{who: 0, bytes: none, end: "reset"},
			{who: 1, bytes: none, end: "fin"},
		}, []want{{objects(0, 1, 5), Finished}}},
		"an object that was cut off and does not come again": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: upTo(p0 + 6)},
			{who: 1, objects: objects(2, 3), bytes: all},
			{who: 0, bytes: none, end: "reset"},
			{who: 1, bytes: none, end: "fin"},
		}, []want{{[]testObject{object(0), {1, "", "payl", 0}}, Reset}, {objects(2, 3), Finished}}},
		"the same publisher, on a new stream after a reset within an object": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: upTo(p0 + 9), end: "reset"},
			{who: 1, objects: objects(0, 1, 2), bytes: all, end: "fin"},
		}, []want{{[]testObject{object(0), {1, "", "payload", 0}}, Reset}, {objects(1, 2), Finished}}},
		"the same publisher, on a new stream after a reset": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all, end: "reset"},
			{who: 1, objects: objects(1, 2, 3), bytes: all, end: "fin"},
		}, []want{{objects(0, 1), Reset}, {objects(2, 3), Finished}}},
		"another publisher goes on where the first was cut": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all, end: "cut"},
			{who: 1, objects: objects(0, 1, 2, 3), bytes: all, end: "fin"},
		}, []want{{objects(0, 1, 2, 3), Finished}}},
		"with the next object": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all, end: "cut"},
			{who: 1, objects: objects(2, 3), bytes: all, end: "cut"},
			{who: 2, objects: objects(3, 4), bytes: all},
		}, []want{{objects(0, 1, 2, 3, 4), Open}}},
		"within an object that was cut": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: upTo(p0 + 5), end: "cut"},
			{who: 1, objects: objects(0, 1, 2), bytes: all, end: "fin"},
		}, []want{{objects(0, 1, 2), Finished}}},
		"within a header that was cut": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: upTo(p0 + 1), end: "cut"},
			{who: 1, objects: objects(1, 2), bytes: all, end: "reset"},
		}, []want{{objects(0, 1, 2), Reset}}},
		"the next one only ends what was cut": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all, end: "cut"},
			{who: 1, objects: objects(0, 1), bytes: all, end: "fin"},
		}, []want{{objects(0, 1), Finished}}},
		"objects are missing after the cut": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all, end: "cut"},
			{who: 1, objects: objects(4, 5), bytes: all, end: "cut"},
		}, []want{{objects(0, 1), Reset}, {objects(4, 5), Cut}}},
		"a mark behind the end is not forwarded": {[]mergeStep{
			{who: 0, objects: objects(0, 1), bytes: all, end: "fin"},
			{who: 1, objects: []testObject{object(1), {2, "", "", moqt.StatusEndOfGroup}}, bytes: all, end: "fin"},
		}, []want{{objects(0, 1), Finished}}},
		"objects before and after those that came": {[]mergeStep{
			{who: 0, objects: objects(2, 3), bytes: all, end: "reset"},
			{who: 1, objects: objects(1, 2, 3, 4), bytes: all, end: "fin"},
		}, []want{{objects(2, 3), Reset}, {objects(1), Reset}, {objects(4), Finished}}},
	}
	for name, tt := range tests {
		for _, piece := range []int{1, 3, 1000} {
			t.Run(fmt.Sprint(name, " in pieces of ", piece), func(t *testing.T) {
				k := newSink(CacheConfig{Grace: time.Second})
				var sources []*Source
				var streams [][]byte
				for _, step := range tt.steps {
					if step.who == len(sources) {
						h := step.header
						if h == (moqt.SubgroupHeader{}) {
							h = plain
						}
						sources = append(sources, k.source(h))
						streams = append(streams, encode(h, step.objects...))
					}
					s := sources[step.who]
					for part := range slices.Chunk(step.bytes(streams[step.who]), piece) {
						require.NoError(t, feed(s, part))
					}
					switch step.end {
					case "fin":
						require.NoError(t, fin(s))
					case "reset":
						require.NoError(t, s.Close(1))
					case "cut":
						require.NoError(t, s.Cut())
					}
				}
				var got []want
				for _, seg := range k.segments {
					st, _ := seg.Log.State()
					got = append(got, want{received(t, seg), st})
				}
				require.Equal(t, tt.want, got)
				for _, s := range sources {
					require.NoError(t, s.Cut())
				}
				k.track.Close()
				require.Zero(t, k.cache.Bytes())
			})
		}
	}
}

// Whatever several publishers of one subgroup do, each object reaches a subscriber once and whole, unless no publisher
// sent all of it.
func TestMergeOfRandomStreams(t *testing.T) {
	for seed := range uint64(10_000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		k := newSink(CacheConfig{Grace: time.Duration(seed%2) * time.Second})
		n := 1 + rnd.Uint64N(12)
		h := plain
		var os []testObject
		for id := range n {
			os = append(os, testObject{id: id * (1 + seed%3), payload: string(pattern(int64(id), rnd.IntN(200)))})
		}
		type stream struct {
			s    *Source
			rest []byte
			fins bool
		}
		var streams []*stream
		whole := rnd.IntN(4) // this one sends everything
		for i := range 4 {
			from, to := rnd.IntN(len(os)), len(os)
			if i == whole {
				from = 0
			}
			b := encode(h, os[from:to]...)
			fins := i == whole || rnd.IntN(2) == 0
			if !fins {
				b = b[:rnd.IntN(len(b)+1)]
			}
			streams = append(streams, &stream{k.source(h), b, fins})
		}
		for len(streams) > 0 {
			i := rnd.IntN(len(streams))
			m := streams[i]
			c := min(len(m.rest), 1+rnd.IntN(150))
			require.NoError(t, feed(m.s, m.rest[:c]))
			if m.rest = m.rest[c:]; len(m.rest) > 0 {
				continue
			}
			switch {
			case m.fins:
				require.NoError(t, fin(m.s))
			case rnd.IntN(2) == 0:
				require.NoError(t, m.s.Cut())
			default:
				require.NoError(t, m.s.Close(1))
			}
			streams = slices.Delete(streams, i, i+1)
		}
		var got []testObject
		for _, seg := range k.segments {
			for _, o := range received(t, seg) {
				if last, _ := seg.Log.Last(); o.id != last.ID || seg.Log.End() == last.End {
					got = append(got, o)
				}
			}
		}
		slices.SortFunc(got, func(a, b testObject) int { return int(a.id) - int(b.id) })
		require.Equal(t, os, got, "seed %d", seed)
		k.track.Close()
		require.Zero(t, k.cache.Bytes())
	}
}

func TestStreamsOfAClosedTrack(t *testing.T) {
	k := newSink(CacheConfig{})
	h := plain
	h.EndOfGroup = true
	open, waiting, late := k.source(h), k.source(h), k.source(h)
	require.NoError(t, feed(open, encode(h, objects(0, 1)...)))
	require.NoError(t, feed(waiting, encode(h, objects(0, 1, 2)...)))
	k.track.Close()
	require.ErrorIs(t, feed(late, encode(h, objects(0, 1)...)), ErrClosed)
	require.ErrorIs(t, fin(open), ErrClosed, "the other one cannot take over")
	for _, s := range []*Source{open, waiting, late} {
		require.NoError(t, s.Close(0))
	}
	require.Zero(t, k.cache.Bytes())
	require.Zero(t, k.cache.Groups())
}

func TestStalledStreamIsCancelled(t *testing.T) {
	k := newSink(CacheConfig{})
	cancelled := false
	a := k.track.NewSource(SourceConfig{Header: plain, Priority: 128, Cancel: func() { cancelled = true }})
	b := k.source(plain)
	first, stream := encode(plain, objects(0, 1, 2)...), encode(plain, objects(0, 1, 2, 3)...)
	require.NoError(t, feed(a, first[:20]))
	require.NoError(t, feed(b, first))
	require.NoError(t, feed(a, first[20:]))
	k.clock.t = k.clock.t.Add(stallTimeout)
	k.cache.Sweep()
	require.False(t, cancelled, "it has caught up")
	require.NoError(t, feed(a, stream[len(first):len(first)+1]))
	require.NoError(t, feed(b, stream[len(first):]))
	k.clock.t = k.clock.t.Add(stallTimeout - 1)
	k.cache.Sweep()
	require.False(t, cancelled)
	k.clock.t = k.clock.t.Add(1)
	k.cache.Sweep()
	require.True(t, cancelled)
	require.NoError(t, a.Close(0))
	require.Equal(t, objects(0, 1, 2, 3), received(t, k.segments[0]))
}
