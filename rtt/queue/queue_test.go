package queue

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"sluice/rtt/report"
)

// taker takes an interval whenever it is told to.
type taker struct {
	next  chan struct{}
	taken []int // how many prefixes
	err   error
}

func (k *taker) take(i *report.Interval) error {
	<-k.next
	k.taken = append(k.taken, len(i.Prefixes))
	return k.err
}

// of returns an interval with a number of prefixes.
func of(prefixes int) *report.Interval {
	return &report.Interval{Prefixes: make([]report.Prefix, prefixes)}
}

// newQueue returns a Queue to a taker.
func newQueue(cfg Config) (*taker, *Queue) {
	k := &taker{next: make(chan struct{})}
	cfg.To, cfg.Take, cfg.Logger = "history", k.take, slog.New(slog.DiscardHandler)
	return k, New(cfg)
}

func lost(t *testing.T, q *Queue) int {
	var m dto.Metric
	require.NoError(t, q.Write(&m))
	return int(m.GetCounter().GetValue())
}

// TestMeasuringDoesNotWait has nobody who takes intervals: they come back at once, and those without room are counted.
func TestMeasuringDoesNotWait(t *testing.T) {
	for name, test := range map[string]struct {
		add  []int
		want []int
	}{
		"small ones":      {[]int{1, 2, 3}, []int{1, 2, 3}},
		"large ones":      {[]int{maxPrefixes - 2048, 2048, 1, 0}, []int{maxPrefixes - 2048, 2048}},
		"a too large one": {[]int{2 * maxPrefixes, 1}, []int{2 * maxPrefixes}},
		"too many":        {make([]int, maxIntervals+3), make([]int, maxIntervals)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, q := newQueue(Config{})
				for _, n := range test.add {
					require.NoError(t, q.Interval(of(n)))
				}
				require.Equal(t, len(test.add)-len(test.want), lost(t, q))
				close(k.next)
				synctest.Wait()
				require.Equal(t, test.want, k.taken, "in their order")
				require.NoError(t, q.Interval(of(7)))
				require.NoError(t, q.Close())
				require.Equal(t, append(test.want, 7), k.taken, "there is room again")
			})
		})
	}
}

// TestReplayWaits adds more than there is room for: all of it is taken, until nobody wants to wait any more.
func TestReplayWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		k, q := newQueue(Config{Wait: ctx})
		go func() {
			for range 2 * maxIntervals {
				k.next <- struct{}{}
			}
			synctest.Wait()
			cancel()
		}()
		for range 3*maxIntervals + 1 {
			require.NoError(t, q.Interval(of(1)))
		}
		require.Equal(t, 1, lost(t, q))
		close(k.next)
		require.NoError(t, q.Close())
		require.Len(t, k.taken, 3*maxIntervals)
	})
}

// TestErrors has a taker that fails: the next interval tells it, or else the end.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, q := newQueue(Config{})
		k.err = errors.New("no space left")
		require.NoError(t, q.Interval(of(1)))
		require.NoError(t, q.Interval(of(2)))
		close(k.next)
		synctest.Wait()
		require.ErrorIs(t, q.Interval(of(3)), k.err)
		require.NoError(t, q.Close(), "it was told")
		require.Equal(t, []int{1}, k.taken, "nothing is taken after an error")

		k, q = newQueue(Config{})
		k.err = errors.New("no space left")
		require.NoError(t, q.Interval(of(1)))
		close(k.next)
		require.ErrorIs(t, q.Close(), k.err)
	})
}
