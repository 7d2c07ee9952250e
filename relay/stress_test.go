package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
)

// TestRandomPeers lets publishers, subscribers and fetchers come, change their requests and go. Subscribers must not
// see an object twice on a subscription, nor objects of a stream out of order, nor wrong contents; and nothing may
// remain (see onBench).
func TestRandomPeers(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			onBench(t, Config{
				Cache:  track.CacheConfig{Duration: 2 * time.Second, Size: 1 << 20},
				Linger: 300 * time.Millisecond, Grace: time.Second,
			}, func(b *bench) {
				ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
				defer cancel()
				var actors sync.WaitGroup
				received := make([]int, 6)
				for i := range uint64(3) {
					actors.Go(func() { b.randomPublisher(ctx, rand.New(rand.NewPCG(seed, i))) })
				}
				for i := range received {
					rnd := rand.New(rand.NewPCG(seed, uint64(10+i)))
					actors.Go(func() { received[i] = b.randomSubscriber(ctx, rnd) })
				}
				actors.Go(func() { b.randomFetcher(ctx, rand.New(rand.NewPCG(seed, 100))) })
				actors.Wait()
				total := 0
				for _, n := range received {
					total += n
				}
				require.Greater(t, total, 100, "the test tests something")
			})
		})
	}
}

// clockGroup is the group that all publishers send now.
func clockGroup(start time.Time) uint64 { return uint64(time.Since(start) / (500 * time.Millisecond)) }

var stressStart = sync.OnceValue(func() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) })

func pause(ctx context.Context, rnd *rand.Rand, most time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(rnd.Int64N(int64(most)))):
		return ctx.Err() == nil
	}
}

// randomPublisher offers or announces the track, publishes for a while, and leaves in one of several ways.
func (b *bench) randomPublisher(ctx context.Context, rnd *rand.Rand) {
	for pause(ctx, rnd, 3*time.Second) {
		c := b.connect()
		src := c.serve(&source{now: func() *moqt.Location { return ptr(at(clockGroup(stressStart()), 9)) }})
		a := &archive{size: 10, largest: at(clockGroup(stressStart()), 9), flat: true}
		c.handler.fetch = a.serve
		var pub *session.Publication
		if rnd.IntN(2) == 0 {
			c.announce("live")
		} else {
			m := moqt.Publish{Track: video, Parameters: moqt.Parameters{LargestObject: src.now()}}
			var err error
			if pub, err = c.Publish(ctx, m); err == nil && pub.Wait(ctx) == nil {
				src.c = c
				go src.keep(pub)
			}
		}
		for range rnd.IntN(12) {
			b.randomGroup(ctx, rnd, src)
		}
		if p := src.publication(); p != nil && rnd.IntN(3) == 0 {
			_ = p.Done(moqt.DoneGoingAway, "")
		}
		pause(ctx, rnd, time.Second)
		c.Session.Close(moqt.SessionNoError, "")
	}
}

// randomGroup sends the rest of the current group, or a part of it.
func (b *bench) randomGroup(ctx context.Context, rnd *rand.Rand, src *source) {
	g := clockGroup(stressStart())
	p := src.publication()
	if p == nil || !p.Forward() {
		pause(ctx, rnd, 500*time.Millisecond)
		return
	}
	h := moqt.SubgroupHeader{GroupID: g}
	str, err := p.OpenSubgroup(ctx, h)
	if err != nil {
		return
	}
	enc := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
	whole := rnd.IntN(4) > 0
	for o := range uint64(10) {
		text := payload(o)
		buf, err := enc.AppendObject(nil, moqt.ObjectHeader{ObjectID: o, PayloadLength: uint64(len(text))})
		if err != nil {
			break
		}
		if _, err := str.Write(append(buf, text...)); err != nil {
			break
		}
		if !whole && rnd.IntN(10) == 0 {
			str.CancelWrite(1)
			return
		}
		pause(ctx, rnd, 90*time.Millisecond)
	}
	str.Close()
}

func (b *bench) randomSubscriber(ctx context.Context, rnd *rand.Rand) (objects int) {
	for pause(ctx, rnd, time.Second) {
		c := b.connect()
		for range 1 + rnd.IntN(3) {
			k := &sink{}
			params := moqt.Parameters{RendezvousTimeout: ptr(uint64(rnd.IntN(3000)))}
			if rnd.IntN(2) == 0 {
				params.Filter = &moqt.Filter{Type: moqt.FilterType(1 + rnd.IntN(2))}
			}
			s, err := c.Subscribe(ctx, moqt.Subscribe{Track: video, Parameters: params}, k)
			if err != nil {
				break
			}
			if _, err := s.Wait(ctx); err == nil {
				b.randomUpdates(ctx, rnd, s)
			}
			s.Cancel(moqt.ResetCancelled)
			objects += k.check(b.t)
		}
		if rnd.IntN(2) == 0 {
			c.Session.Close(moqt.SessionNoError, "")
		}
	}
	return objects
}

func (b *bench) randomUpdates(ctx context.Context, rnd *rand.Rand, s *session.Subscription) {
	for range rnd.IntN(4) {
		pause(ctx, rnd, 2*time.Second)
		p := moqt.Parameters{SubscriberPriority: ptr(uint8(rnd.IntN(256)))}
		if rnd.IntN(2) == 0 {
			p.Forward = ptr(rnd.IntN(2) == 0)
		}
		if _, err := s.Update(ctx, p); err != nil {
			return
		}
	}
	pause(ctx, rnd, 2*time.Second)
}

// check verifies the objects of a subscription, and returns how many there were.
func (k *sink) check(t *testing.T) (objects int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var seen []string
	for _, event := range k.got {
		if !strings.Contains(event, " ") {
			seen = append(seen, event)
		}
		require.NotContains(t, event, "=", "contents")
	}
	objects = len(seen)
	slices.Sort(seen)
	require.Len(t, slices.Compact(seen), objects, "each object comes once")
	return objects
}

func (b *bench) randomFetcher(ctx context.Context, rnd *rand.Rand) {
	c := b.connect()
	for pause(ctx, rnd, time.Second) {
		now := clockGroup(stressStart())
		start := now - min(now, rnd.Uint64N(6))
		m := standalone(at(start, rnd.Uint64N(10)), at(start+rnd.Uint64N(5), 0))
		m.Parameters.GroupOrder = ptr(moqt.GroupOrder(1 + rnd.IntN(2)))
		f, err := c.Fetch(ctx, m)
		if err != nil {
			return
		}
		if rnd.IntN(5) == 0 {
			f.Cancel(moqt.ResetCancelled)
			continue
		}
		g := c.collect(f, *m.Parameters.GroupOrder)
		require.NotContains(b.t, g.objects, "=")
	}
}
