package relay

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
)

// What a player reports counts for the choice of the rendition, and nothing that it does not say.
func TestPlayback(t *testing.T) {
	for name, tt := range map[string]struct {
		reports func(second int) moqt.Playback
		want    []string
		why     string
	}{
		"nothing":         {want: []string{"high"}},
		"a small display": {moqtPlayback(moqt.Playback{Width: 640, Height: 360}), []string{"high", "low"}, "display"},
		"a large display": {moqtPlayback(moqt.Playback{Width: 1920, Height: 1080}), []string{"high"}, ""},
		"absurd numbers": {
			moqtPlayback(moqt.Playback{
				Buffered: math.MaxUint64, Dropped: math.MaxUint64, Width: math.MaxUint64, Height: math.MaxUint64,
			}), []string{"high"}, "",
		},
		"a slow decoder": {
			func(second int) moqt.Playback { return moqt.Playback{Dropped: uint64(8 * min(second, 10))} },
			[]string{"high", "low"}, "decoder",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				l := b.ladder()
				subscriber := b.connect()
				subscriber.setState(widePath)
				k := &sink{}
				high := subscriber.sizedRendition(k, "high", 5_000_000, 1280, 720, true)
				b.subscribed(high, subscriber.sizedRendition(k, "low", 1_000_000, 640, 360, false))
				go l.run(25)
				for second := range 24 {
					time.Sleep(time.Second)
					if tt.reports != nil {
						b.update(high, moqt.Parameters{Playback: new(tt.reports(second))})
					}
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Equal(t, tt.want, k.checkGroups(t))
				require.Equal(t, tt.why, b.set().Reason)
			})
		})
	}
}

func moqtPlayback(p moqt.Playback) func(int) moqt.Playback {
	return func(int) moqt.Playback { return p }
}

// sizedRendition subscribes to a rendition of set 1 with pictures of a size.
func (c *client) sizedRendition(
	k *sink, name string, bitrate, width, height uint64, forward bool,
) *session.Subscription {
	sub, err := c.Subscribe(c.b.ctx, moqt.Subscribe{
		Track: trackNamed(name),
		Parameters: moqt.Parameters{
			Forward:   &forward,
			Rendition: &moqt.Rendition{Set: 1, Bitrate: bitrate, Width: width, Height: height},
			Filter:    &moqt.Filter{Type: moqt.FilterRelativeStart},
		},
	}, k)
	require.NoError(c.b.t, err)
	return sub
}

// A player with a full buffer may wait: the drop policy knows, for a set and for a single track.
func TestPatience(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		b.ladder()
		subscriber := b.connect()
		k := &sink{}
		one := subscriber.sizedRendition(k, "high", 2, 0, 0, true)
		b.subscribed(one, subscriber.sizedRendition(k, "low", 1, 0, 0, false))
		patience := func() (list []time.Duration) {
			for _, s := range subscriber.sender().subs {
				list = append(list, s.patience)
			}
			return list
		}
		for _, tt := range []struct {
			buffered uint64
			want     time.Duration
		}{{4001, 2 * time.Second}, {1, 0}, {math.MaxUint64, 5 * time.Second}, {0, 0}} {
			b.update(one, moqt.Parameters{Playback: &moqt.Playback{Buffered: tt.buffered}})
			require.Equal(t, []time.Duration{tt.want, tt.want}, patience())
		}
		b.update(one, moqt.Parameters{Playback: &moqt.Playback{Buffered: 3001}})
		b.subscribed(subscriber.sizedRendition(k, "middle", 3, 0, 0, false))
		require.Equal(t, slices.Repeat([]time.Duration{1500 * time.Millisecond}, 3), patience(), "of one that joins")
		single, err := subscriber.subscribeTo("other")
		require.NoError(t, err)
		b.update(single, moqt.Parameters{Playback: &moqt.Playback{Buffered: 1001}})
		require.Equal(t, 500*time.Millisecond, patience()[3])
	})
}

// A report does not touch the subscription, and comes with other parameters, too.
func TestReportsAreCheap(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		b.ladder()
		subscriber := b.connect()
		sub, err := subscriber.subscribeTo("high")
		require.NoError(t, err)
		b.update(sub, moqt.Parameters{Playback: &moqt.Playback{}, SubscriberPriority: new(uint8(7))})
		synctest.Wait()
		require.EqualValues(t, 7, subscriber.sender().subs[0].cfg.Priority)
	})
}
