package track

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// Publishers, subscribers, FETCHes and the sweeper run at once: subscribers get every byte, and no memory is left.
func TestConcurrentUse(t *testing.T) {
	const groups, perGroup = 30, 20
	var mu sync.Mutex
	var readers sync.WaitGroup
	whole := map[uint64]int{} // objects that arrived whole, by group
	c := NewCache(CacheConfig{Size: 1 << 20})
	subscribe := func(s *Segment) {
		notify := make(chan struct{}, 1)
		r, err := s.Log.NewReader(s.Start, wakeChan(notify))
		if err != nil {
			t.Error(err)
			return
		}
		readers.Go(func() {
			defer r.Close()
			n := readSegment(t, s, r, notify)
			mu.Lock()
			whole[s.Group] += n
			mu.Unlock()
		})
	}
	tr := c.NewTrack(subscribe)
	stop := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() { each(stop, c.Sweep) })
	background.Go(func() { each(stop, func() { fetchAll(tr, groups, perGroup) }) })

	var publishers sync.WaitGroup
	for p := range uint64(3) {
		publishers.Go(func() {
			rnd := rand.New(rand.NewPCG(p, 0))
			for g := range uint64(groups) {
				if err := publishGroup(tr, g, perGroup, rnd, p == 0 || rnd.IntN(2) == 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	publishers.Wait()
	readers.Wait()
	close(stop)
	background.Wait()
	for g := range uint64(groups) {
		require.Equal(t, perGroup, whole[g], "group %d", g)
	}
	tr.Close()
	require.Zero(t, c.Bytes())
}

func each(stop chan struct{}, fn func()) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
			fn()
		}
	}
}

func stressPayload(id uint64) []byte { return pattern(int64(id), int(id*37%2000)) }

func publishGroup(tr *Track, g uint64, n uint64, rnd *rand.Rand, whole bool) error {
	h := moqt.SubgroupHeader{GroupID: g}
	var os []testObject
	for id := range n {
		os = append(os, testObject{id: id, payload: string(stressPayload(id))})
	}
	b := encode(h, os...)
	s := tr.NewSource(SourceConfig{Header: h, Cancel: func() {}})
	defer s.Close(1)
	if !whole {
		b = b[:rnd.IntN(len(b))]
	}
	for len(b) > 0 {
		c := min(len(b), 1+rnd.IntN(1400))
		if err := feed(s, b[:c]); err != nil {
			return err
		}
		b = b[c:]
	}
	if whole {
		return fin(s)
	}
	return nil
}

// readSegment checks what a subscriber gets and returns how many objects were whole.
func readSegment(t *testing.T, s *Segment, r *Reader, notify chan struct{}) (whole int) {
	next := s.First
	for {
		st, _ := s.Log.State()
		o, ok := s.Log.Seek(next)
		if ok && s.Log.End() >= o.End {
			p := make([]byte, o.PayloadLen())
			r.ReadAt(p, o.PayloadStart)
			if !bytes.Equal(p, stressPayload(o.ID)) {
				t.Errorf("object %d of group %d is wrong", o.ID, s.Group)
			}
			next, whole = o.ID+1, whole+1
			r.Release(o.End)
			continue
		}
		if st != Open {
			return whole
		}
		<-notify
	}
}

func fetchAll(tr *Track, groups, perGroup uint64) {
	r := moqt.Range{End: loc(groups-1, perGroup-1)}
	for {
		s := tr.At(r, time.Time{}, nil)
		if s.Reader != nil {
			s.Reader.View(s.Object.Start, 10)
			s.Reader.Close()
		}
		if s.Range.End == r.End {
			return
		}
		r.Start = s.Range.End.Next()
	}
}
