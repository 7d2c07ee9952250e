//go:build unlucky

package unlucky

import (
	"bytes"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSometimes checks that places are unlucky now and then, and not before or after.
func TestSometimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		happened := func() (n int) {
			for range 1000 {
				if Happens() {
					n++
				}
			}
			return n
		}
		require.Zero(t, happened())
		end := Begin(1)
		n := happened()
		require.Greater(t, n, 10)
		require.Less(t, n, 200)
		start := time.Now()
		for range 100 {
			Late()
		}
		require.Positive(t, time.Since(start))
		content := bytes.Repeat([]byte("content"), 1000)
		require.NoError(t, iotest.TestReader(Reader(bytes.NewReader(content)), content))
		end()
		require.Zero(t, happened())
	})
}
