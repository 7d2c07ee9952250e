package track

import (
	"bytes"
	"math"
	"testing"

	"sluice/moqt"
)

const packetBytes = 1200

func BenchmarkAppend(b *testing.B) {
	for name, readers := range map[string]int{"no readers": 0, "100 readers": 100} {
		b.Run(name, func(b *testing.B) {
			p := pattern(0, packetBytes)
			l := NewLog(0, nil)
			l.Discard(math.MaxInt64)
			var rs []*Reader
			for range readers {
				r, _ := l.NewReader(0, new(countWakes))
				rs = append(rs, r)
			}
			b.SetBytes(packetBytes)
			b.ReportAllocs()
			for b.Loop() {
				l.Append(p)
				for _, r := range rs {
					r.Release(l.End())
				}
			}
		})
	}
}

func BenchmarkView(b *testing.B) {
	l := NewLog(0, nil)
	l.Append(pattern(0, 1<<20))
	r, _ := l.NewReader(0, nil)
	off := int64(0)
	b.SetBytes(packetBytes)
	b.ReportAllocs()
	for b.Loop() {
		if off += packetBytes; off+packetBytes > l.End() {
			off = 0
		}
		r.View(off, packetBytes)
	}
}

func BenchmarkIndex(b *testing.B) {
	l := NewLog(0, nil)
	const n = 100_000
	for i := range int64(n) {
		o := Object{ID: uint64(i), Start: i * 22, PayloadStart: i*22 + 2, End: i*22 + 22, Received: epoch}
		if err := l.AddObject(o); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("by id", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i += 7919 {
			l.Seek(i % n)
		}
	})
	b.Run("by offset", func(b *testing.B) {
		for i := int64(0); b.Loop(); i += 7919 {
			l.Covering(i % n * 22)
		}
	})
}

// BenchmarkSource takes in a stream packet by packet.
func BenchmarkSource(b *testing.B) {
	for name, size := range map[string]int{"20 byte objects": 20, "20 KB objects": 20_000} {
		b.Run(name, func(b *testing.B) {
			var os []testObject
			for id := range uint64(2_000_000 / (size + 2)) {
				os = append(os, testObject{id: id, payload: string(make([]byte, size))})
			}
			stream := encode(plain, os...)
			k := newSink(CacheConfig{Duration: -1})
			b.SetBytes(packetBytes)
			b.ReportAllocs()
			var s *Source
			var r bytes.Reader
			for off := len(stream); b.Loop(); off += packetBytes {
				if off+packetBytes > len(stream) {
					if s != nil {
						s.Close(0)
					}
					k.segments = nil
					k.track = k.cache.NewTrack(nil)
					s, off = k.track.NewSource(SourceConfig{Header: plain}), 0
				}
				r.Reset(stream[off : off+packetBytes])
				for r.Len() > 0 {
					if err := s.Read(&r); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkFind looks up an object of a group in which each object has a segment.
func BenchmarkFind(b *testing.B) {
	k := newSink(CacheConfig{Size: -1})
	for id := range uint64(maxSegments - 1) {
		if err := (came{group: 7, subgroup: id, objects: objects(id), fin: true}).arrive(k); err != nil {
			b.Fatal(err)
		}
	}
	g := k.track.index.group(7)
	for id := uint64(0); b.Loop(); id += 7919 {
		g.find(id % (maxSegments - 1))
	}
}

// BenchmarkAt looks up the objects of a group, as FETCH does.
func BenchmarkAt(b *testing.B) {
	k := newSink(CacheConfig{})
	for s := range uint64(4) {
		var os []testObject
		for id := s; id < 1000; id += 4 {
			os = append(os, object(id))
		}
		if err := (came{subgroup: s, objects: os, fin: true}).arrive(k); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for id := uint64(0); b.Loop(); id++ {
		l := moqt.Location{Object: id % 1000}
		st := k.track.At(moqt.Range{Start: l, End: l}, epoch, nil)
		st.Reader.Close()
	}
}
