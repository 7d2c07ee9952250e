package track

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
)

// FuzzSources feeds two streams of one subgroup, cut and interleaved as the input says. If the first segment is one
// stream's bytes, its visible bytes are the ones that were sent. So are those of a stream that has gone on with the
// log. No memory leaks.
func FuzzSources(f *testing.F) {
	end := testObject{id: 9, status: moqt.StatusEndOfGroup}
	f.Add(encode(plain, objects(0, 1, 2)...), encode(plain, objects(0, 1, 2, 3)...), []byte{3, 5, 9, 200}, false)
	f.Add(encode(plain, append(objects(0, 4), end)...), encode(plain, objects(4, 5)...), []byte{1, 1, 1}, true)
	f.Add([]byte{0, 2, 0x3e, 1, 1, 'x', 0, 0, 0, 3}, []byte{0, 0, 0x40}, []byte{1}, true)
	// Streams that are wrong before any of their bytes is visible: the first of their subgroup, and another one.
	f.Add([]byte{0x30}, []byte{0, 0, 3, 0x48, 0, 0}, []byte{0x75}, false)
	f.Add([]byte{0, 1, 0, 0, 0, 100}, []byte{0, 1, 0, 0, 0, 4, 'a', 0x7f}, []byte{0xe7}, false)
	f.Fuzz(func(t *testing.T, a, b, cuts []byte, properties bool) {
		defer testlimit.Start(t, len(a)+len(b), 1000)()
		k := newSink(CacheConfig{Duration: time.Hour})
		h := moqt.SubgroupHeader{HasProperties: properties, EndOfGroup: true}
		streams := [][]byte{a, b}
		var sources []*Source
		for w := range streams {
			sources = append(sources, k.track.NewSource(SourceConfig{
				Header: h, Priority: 128, Start: 5, Owner: w, Cancel: func() {},
			}))
		}
		dead := []bool{false, false}
		for i := 0; len(streams[0])+len(streams[1]) > 0; i++ {
			w := i % 2
			n := 1
			if len(cuts) > 0 {
				n = 1 + int(cuts[i%len(cuts)])
			}
			n = min(n, len(streams[w]))
			if !dead[w] && feed(sources[w], streams[w][:n]) != nil {
				dead[w] = true
				sources[w].Close(1)
			}
			streams[w] = streams[w][n:]
		}
		for w, s := range sources {
			if !dead[w] {
				fin(s)
			}
			s.Close(2)
		}
		if len(k.segments) > 0 && len(b) == 0 {
			got := visible(t, k.segments[0].Log, k.segments[0].Log.First.From)
			require.True(t, bytes.HasPrefix(a, got))
		}
		for _, s := range k.segments {
			st, _ := s.Log.State()
			require.NotEqual(t, Open, st)
			o := s.Log.Origin()
			end, severed := o.Severed()
			if !severed {
				end = s.Log.End()
			}
			if w, ok := o.Owner.(int); ok {
				from := max(o.From, s.Start) // a log holds no bytes before its segment
				got := visible(t, s.Log, from)[:end-from]
				require.True(t, bytes.HasPrefix([][]byte{a, b}[w][from-o.Delta-5:], got))
			}
		}
		k.track.Close()
		require.Zero(t, k.cache.Bytes())
	})
}

// visible is readAll for a log that may have ended before any byte was visible: then it holds none.
func visible(t *testing.T, l *Log, from int64) []byte {
	if l.End() == from {
		return nil
	}
	return readAll(t, l, from)
}
