//go:build !unlucky

package unlucky

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNever checks that nothing happens in builds without the tag.
func TestNever(t *testing.T) {
	defer Begin(1)()
	r := strings.NewReader("all of it")
	require.Same(t, r, Reader(r))
	for range 1000 {
		require.False(t, Happens())
	}
}
