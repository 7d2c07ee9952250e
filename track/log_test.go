package track

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
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

func TestLogReturnsWhatWasAppended(t *testing.T) {
	for _, size := range []int{1, 63, 64, 65, 319, 320, 321, 1200, 70_000, 300_000} {
		l := NewLog(7, nil)
		want := pattern(7, size)
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(1500))
			l.Append(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, int64(7), l.First.From)
		require.Equal(t, int64(7+size), l.End())
		require.Equal(t, want, readAll(t, l, 7))
		require.Equal(t, want[size/2:], readAll(t, l, 7+int64(size/2)))
	}
}

func TestViewsAreLogMemory(t *testing.T) {
	l := NewLog(0, nil)
	l.Append(pattern(0, 1000))
	r, err := l.NewReader(0, nil)
	require.NoError(t, err)
	defer r.Close()
	a, b := r.View(100, 50), r.View(100, 50)
	require.Equal(t, pattern(100, 50), a)
	require.Same(t, &a[0], &b[0])
	require.Empty(t, r.View(1000, 10))
	require.Empty(t, r.View(2000, 10), "the kernel's cursor can be ahead of the log")
	require.Len(t, r.View(990, 100), 10)
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

func TestStates(t *testing.T) {
	l := NewLog(0, nil)
	s, _ := l.State()
	require.Equal(t, Open, s)
	l.Finish()
	l.Reset(9)
	s, code := l.State()
	require.Equal(t, Finished, s, "a log ends once")
	require.Zero(t, code)

	l = NewLog(0, nil)
	l.Reset(1<<62 - 1)
	s, code = l.State()
	require.Equal(t, Reset, s)
	require.Equal(t, uint64(1<<62-1), code)
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

func TestChunksAreReleasedBehindReaders(t *testing.T) {
	var mem Memory
	l := NewLog(0, &mem)
	slow, err := l.NewReader(0, nil)
	require.NoError(t, err)
	l.Append(pattern(0, 1<<20))
	full := mem.Bytes()
	require.Greater(t, full, int64(1<<20))

	l.Discard(math.MaxInt64)
	require.Equal(t, full, mem.Bytes(), "a reader pins all it has not released")
	fast, err := l.NewReader(900_000, nil)
	require.NoError(t, err)
	slow.Release(500_000)
	require.Less(t, mem.Bytes(), full-400_000)
	require.Equal(t, pattern(500_000, 1000), slow.View(500_000, 1000))
	_, err = l.NewReader(0, nil)
	require.ErrorIs(t, err, ErrDiscarded)
	slow.Close()
	require.Less(t, mem.Bytes(), int64(300_000))
	require.Equal(t, pattern(900_000, 1000), fast.View(900_000, 1000))
	l.Finish()
	require.True(t, l.Pinned())
	fast.Close()
	require.False(t, l.Pinned())
	require.Zero(t, mem.Bytes())
	_, err = l.NewReader(l.End(), nil)
	require.ErrorIs(t, err, ErrDiscarded)
}

func TestUnreadLogWithoutRetentionStaysSmall(t *testing.T) {
	var mem Memory
	l := NewLog(0, &mem)
	l.Discard(math.MaxInt64)
	for i := range 1000 {
		l.Append(pattern(int64(i)*1200, 1200))
	}
	require.Less(t, mem.Bytes(), int64(3*maxChunk))
	joined, err := l.NewReader(l.End(), nil)
	require.NoError(t, err, "the live edge can always be joined")
	l.Append([]byte("live"))
	require.Equal(t, "live", string(joined.View(l.End()-4, 4)))
	joined.Close()
	l.Reset(1)
	require.Zero(t, mem.Bytes())
}

func TestReadersRunBesideTheWriter(t *testing.T) {
	const size = 2 << 20
	var mem Memory
	l := NewLog(0, &mem)
	var wg sync.WaitGroup
	for k := range 4 {
		notify := make(chan struct{}, 1)
		r, err := l.NewReader(0, wakeChan(notify))
		require.NoError(t, err)
		wg.Go(func() {
			defer r.Close()
			rnd := rand.New(rand.NewPCG(uint64(k), 1))
			for off := int64(0); off < size; {
				v := r.View(off, 1+rnd.IntN(3000))
				if len(v) == 0 {
					<-notify
					continue
				}
				if !bytes.Equal(v, pattern(off, len(v))) {
					t.Errorf("wrong bytes at %d", off)
					return
				}
				off += int64(len(v))
				if rnd.IntN(3) == 0 {
					r.Release(off)
				}
			}
		})
	}
	l.Discard(math.MaxInt64)
	all := pattern(0, size)
	for len(all) > 0 {
		n := min(len(all), 1400)
		l.Append(all[:n])
		all = all[n:]
	}
	l.Finish()
	wg.Wait()
	require.Zero(t, mem.Bytes())
}

type wakeChan chan struct{}

func (c wakeChan) Wake() {
	select {
	case c <- struct{}{}:
	default:
	}
}
