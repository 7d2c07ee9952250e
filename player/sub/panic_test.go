package sub

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/player/client/clienttest"
	"sluice/player/pub"
)

// trap panics when something is written for the last time.
type trap struct{ left int }

func (t *trap) Write(b []byte) (int, error) {
	if t.left--; t.left < 0 {
		panic("a library")
	}
	return len(b), nil
}

// trapMemory panics when memory is taken for the last time, on a goroutine that reads a stream.
type trapMemory struct {
	unbounded
	left atomic.Int64
}

func (m *trapMemory) Take(int) bool {
	if m.left.Add(-1) == 0 {
		panic("a library")
	}
	return true
}

// TestPanicOfAReader is TestPanicEndsPlayback on goroutines that take objects apart.
func TestPanicOfAReader(t *testing.T) {
	for _, takes := range []int64{1, 2, 3, 20} { // the catalog's first
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{}
				publish(t, r, pub.PublisherConfig{Loop: true})
				m := &trapMemory{}
				m.left.Store(takes)
				cfg := PlayerConfig{Namespace: namespace, Out: io.Discard, Client: clientConfig(r), Memory: m}
				_, err := Run(t.Context(), cfg, nil)
				require.ErrorContains(t, err, "panic: a library")
			})
		})
	}
}

// A panic ends playback with an error, whichever goroutine it is of.
func TestPanicEndsPlayback(t *testing.T) {
	for _, writes := range []int{0, 1, 10} {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{}
				publish(t, r, pub.PublisherConfig{Loop: true})
				cfg := PlayerConfig{Namespace: namespace, Out: &trap{writes}, Client: clientConfig(r)}
				_, err := Run(t.Context(), cfg, nil)
				_, ok := errors.AsType[*MediaError](err)
				require.True(t, ok, "%v", err)
				require.ErrorContains(t, err, "panic: a library")
			})
		})
	}
}
