package track

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// pattern is a byte sequence in which every offset within 64 KB has a unique value.
func pattern(off int64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		o := uint64(off+int64(i)) * 0x9e3779b97f4a7c15
		b[i] = byte(o >> 56)
	}
	return b
}

func readAll(t *testing.T, l *Log, from int64) []byte {
	t.Helper()
	r, err := l.NewReader(from, nil)
	require.NoError(t, err)
	defer r.Close()
	b := make([]byte, l.End()-from)
	require.Equal(t, len(b), r.ReadAt(b, from))
	return b
}

func TestFilledBytesAreInvisibleUntilCommitted(t *testing.T) {
	l := NewLog(10, nil)
	p, err := l.Fill(bytes.NewReader([]byte("abcdef")))
	require.NoError(t, err)
	require.Equal(t, "abcdef", string(p))
	require.Equal(t, int64(10), l.End())
	require.Equal(t, int64(16), l.Written())
	l.Commit(13)
	require.Equal(t, "abc", string(readAll(t, l, 10)))
	require.Panics(t, func() { l.Commit(17) })
	require.Panics(t, func() { l.Commit(12) })
	l.Reset(5)
	require.Equal(t, int64(13), l.End(), "uncommitted bytes are lost")

	_, err = NewLog(0, nil).Fill(iotest.ErrReader(io.ErrUnexpectedEOF))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

type countWakes struct {
	mu sync.Mutex
	n  int
	on func()
}

func (c *countWakes) Wake() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	if c.on != nil {
		c.on()
	}
}

func TestWakers(t *testing.T) {
	l := NewLog(0, nil)
	var a, b countWakes
	ra, _ := l.NewReader(0, &a)
	rb, _ := l.NewReader(0, &b)
	b.on = func() { l.NewReader(0, nil) } // a waker may use the log
	l.Append([]byte("x"))
	require.Equal(t, []int{1, 1}, []int{a.n, b.n})
	ra.Close()
	l.Append([]byte("x"))
	require.Equal(t, []int{1, 2}, []int{a.n, b.n})
	l.Finish()
	require.Equal(t, 3, b.n)
	rb.Close()
	rb.Close()
}

func TestAppendWakesWithoutAllocation(t *testing.T) {
	l := NewLog(0, nil)
	for range 100 {
		_, err := l.NewReader(0, new(countWakes))
		require.NoError(t, err)
	}
	l.Append([]byte("x"))
	p := []byte("y")
	require.Zero(t, testing.AllocsPerRun(50, func() { l.Append(p) }))
}

type wakeChan chan struct{}

func (c wakeChan) Wake() {
	select {
	case c <- struct{}{}:
	default:
	}
}

func TestBytesOfSeveralChunks(t *testing.T) {
	l := NewLog(0, nil)
	l.Append(pattern(0, 1000))
	require.Equal(t, pattern(50, 700), l.chunks.read(50, 700))
	r, err := l.NewReader(0, nil)
	require.NoError(t, err)
	l.Discard(1000)
	for _, off := range []int64{900, 10} { // it goes back
		require.Equal(t, pattern(off, 5), r.View(off, 5))
	}
	r.Release(900) // and where it was is gone
	require.Equal(t, pattern(950, 5), r.View(950, 5))
}
