package thirdparty

import (
	"testing"

	"github.com/safchain/ethtool"
	"github.com/stretchr/testify/require"
)

// TestEthtoolAtAnyDepth asks for a device's features where the call has to grow the goroutine's stack, and where it has
// not.
func TestEthtoolAtAnyDepth(t *testing.T) {
	e, err := ethtool.NewEthtool()
	require.NoError(t, err)
	defer e.Close()
	for depth := range 100 {
		names := make(chan map[string]uint)
		go atDepth(depth, func() {
			found, _ := e.FeatureNames("lo")
			names <- found
		})
		require.NotEmpty(t, <-names, "depth %d", depth)
	}
}

func atDepth(n int, do func()) (frame [64]byte) {
	if n > 0 {
		return atDepth(n-1, do)
	}
	do()
	return frame
}
