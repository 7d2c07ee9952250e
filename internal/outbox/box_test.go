package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/metrictest"
	"sluice/internal/webclient"
)

// service stands in for the service in a bubble: it records values, and answers with errors as long as there are some.
type service struct {
	t      *testing.T
	errors []error
	hold   chan struct{} // if not nil, an answer waits for it
	tries  []time.Duration
	began  time.Time
	got    []int
}

func (v *service) post(ctx context.Context, b []byte) error {
	v.tries = append(v.tries, time.Since(v.began))
	if v.hold != nil {
		select {
		case <-v.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if len(v.errors) > 0 {
		err := v.errors[0]
		v.errors = v.errors[1:]
		return err
	}
	var body struct{ Numbers []int }
	require.NoError(v.t, json.Unmarshal(b, &body))
	v.got = append(v.got, body.Numbers...)
	return nil
}

const size = 40

func inBubble(t *testing.T, test func(*testing.T, *service, *Box[int])) {
	synctest.Test(t, func(t *testing.T) {
		v := &service{t: t, began: time.Now()}
		b := New(Config[int]{
			What: "numbers", Flag: "--url", Metric: "numbers", Size: size, Batch: 10,
			Logger: slog.New(slog.DiscardHandler),
		}, v.post)
		defer b.Close(t.Context())
		test(t, v, b)
	})
}

var errDown = errors.New("connection refused")

func TestValuesAreSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, b *Box[int]) {
		for range 4 {
			v.errors = append(v.errors, errDown)
			v.errors = append(v.errors, &webclient.StatusError{Status: 503}, &webclient.StatusError{Status: 429})
		}
		b.Add(1)
		b.Add(2)
		time.Sleep(maxAge)
		synctest.Wait()
		// The second value has a message of its own if the first one was quicker.
		require.Contains(t, []int{13, 14}, len(v.tries))
		longest := minPause
		for i, at := range v.tries[1:13] {
			pause := at - v.tries[i]
			require.LessOrEqual(t, pause, longest)
			require.GreaterOrEqual(t, pause, longest/2)
			longest = min(2*longest, maxPause)
		}
		require.Equal(t, []int{1, 2}, v.got, "in their order")
		require.Equal(t, 2.0, metrictest.Sum(t, b, "numbers_sent_total"))
		require.Zero(t, metrictest.Sum(t, b, "numbers_dropped_total"))
	})
}

func TestValuesAreGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, b *Box[int]) {
		v.errors = []error{&webclient.StatusError{Status: 400}}
		b.Add(1)
		synctest.Wait()
		require.Len(t, v.tries, 1)
		require.Equal(t, 1.0, metrictest.Sum(t, b, "numbers_dropped_total", DroppedRefused))
		for range 100 {
			v.errors = append(v.errors, errDown)
		}
		b.Add(2)
		time.Sleep(maxAge + 2*maxPause)
		synctest.Wait()
		require.Equal(t, 1.0, metrictest.Sum(t, b, "numbers_dropped_total", DroppedAge))
		v.errors = nil
		b.Add(3)
		synctest.Wait()
		require.Equal(t, []int{3}, v.got, "later values are sent")
	})
}

// TestLongAnswers has a service that confirms values, but whose answer is no good: it gets them once.
func TestLongAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, b *Box[int]) {
		v.errors = []error{&webclient.BodyError{Err: errors.New("the answer is longer than 10 bytes")}}
		b.Add(1)
		time.Sleep(maxAge)
		synctest.Wait()
		require.Len(t, v.tries, 1)
		require.Equal(t, 1.0, metrictest.Sum(t, b, "numbers_sent_total"))
	})
}

func TestQueueIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, b *Box[int]) {
		v.hold = make(chan struct{})
		b.Add(0)
		synctest.Wait() // the first one is on its way
		for i := range size + 10 {
			b.Add(i)
		}
		require.Equal(t, 10.0, metrictest.Sum(t, b, "numbers_dropped_total", DroppedQueue))
		close(v.hold)
		synctest.Wait()
		require.Len(t, v.got, size+1)
		require.Len(t, v.tries, 1+size/10, "in batches")
	})
}

func TestBytesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, b *Box[int]) {
		b.cfg.MaxBytes, b.cfg.Bytes = 100, func(n int) int { return n }
		v.hold = make(chan struct{})
		b.Add(0)
		synctest.Wait() // the first one is on its way
		b.Add(1000)     // one may be large
		b.Add(1)
		require.Equal(t, 1.0, metrictest.Sum(t, b, "numbers_dropped_total", DroppedQueue))
		close(v.hold)
		synctest.Wait()
		for range 2 {
			v.hold = make(chan struct{})
			b.Add(0)
			synctest.Wait()
			b.Add(99)
			b.Add(2)
			b.Add(1)
			close(v.hold)
			synctest.Wait()
		}
		require.Equal(t, []int{0, 1000, 0, 99, 1, 0, 99, 1}, v.got)
	})
}

// waiting returns a box like the given one that waits for room.
func waiting(ctx context.Context, like *Box[int]) *Box[int] {
	cfg := like.cfg
	cfg.Wait = ctx
	return New(cfg, like.post)
}

// TestAddWaits adds more than there is room for: all of it arrives, until nobody wants to wait any more.
func TestAddWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, b *Box[int]) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b = waiting(ctx, b)
		for i := range 10 * size {
			b.Add(i)
		}
		b.Close(t.Context())
		require.Len(t, v.got, 10*size)
		require.Zero(t, metrictest.Sum(t, b, "numbers_dropped_total"))
	})
	inBubble(t, func(t *testing.T, v *service, b *Box[int]) {
		for range 1000 {
			v.errors = append(v.errors, errDown)
		}
		b = waiting(t.Context(), b)
		for i := range 10 * size {
			b.Add(i)
		}
		require.Less(t, time.Since(v.began), 2*maxAge, "a service that is away does not hold a replay for good")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.Close(ctx)
		require.NotZero(t, metrictest.Sum(t, b, "numbers_dropped_total", DroppedQueue))
	})
	inBubble(t, func(t *testing.T, v *service, b *Box[int]) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v.hold = make(chan struct{})
		b = waiting(ctx, b)
		defer b.Close(ctx)
		b.Add(0)
		synctest.Wait()
		for i := range size + 1 {
			b.Add(i)
		}
		require.Equal(t, time.Minute, time.Since(v.began))
		require.Equal(t, 1.0, metrictest.Sum(t, b, "numbers_dropped_total", DroppedQueue))
	})
}

func TestCloseDoesNotWaitForever(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, b *Box[int]) {
		v.hold = make(chan struct{})
		for i := range 3 {
			b.Add(i)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.Close(ctx)
		b.Add(4)
		require.Equal(t, 4.0, metrictest.Sum(t, b, "numbers_dropped_total", DroppedAtEnd))
	})
}
