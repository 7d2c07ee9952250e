package media

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Without FIN a stream is not complete, even if all its bytes have arrived.
func TestDeliveryOfFIN(t *testing.T) {
	var d delivery
	d.markAcked(0, 10, false)
	require.False(t, d.complete(10))
	d.markAcked(10, 10, true)
	require.True(t, d.complete(10))
}
