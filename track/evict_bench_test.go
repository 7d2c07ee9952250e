package track

import "testing"

// BenchmarkFullCache takes in groups of one small object while the cache, with 100,000 of them, is full.
func BenchmarkFullCache(b *testing.B) {
	k := newSink(CacheConfig{Size: -1})
	k.track.opened = func(*Segment) {}
	var group uint64
	next := func() {
		for range 10 { // several tracks, each within its limits
			if err := (came{group: group, objects: objects(0), fin: true}).arrive(k); err != nil {
				b.Fatal(err)
			}
			group++
		}
	}
	tracks := []*Track{k.track}
	for range 9 {
		tracks = append(tracks, k.cache.NewTrack(nil))
	}
	for i := range 10_000 {
		k.track = tracks[i%len(tracks)]
		next()
	}
	k.cache.size = k.cache.Bytes()
	k.cache.trigger.Store(k.cache.size)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		k.track = tracks[i%len(tracks)]
		next()
		i++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(10*b.N), "ns/group")
}
