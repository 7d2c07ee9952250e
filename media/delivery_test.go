package media

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Bytes that have arrived are not sent again, in whatever order losses and acknowledgments are seen.
func TestDelivery(t *testing.T) {
	var d delivery
	d.markLost(0, 100, false)
	d.markLost(200, 300, true)
	require.True(t, d.finLost)
	d.markAcked(50, 100, false)
	require.Equal(t, spans{{0, 50}, {200, 300}}, d.lost)
	require.Zero(t, d.released(), "the first bytes have not arrived")

	d.markResent(0, 50, false)
	d.markResent(200, 300, true)
	require.Empty(t, d.lost)
	require.False(t, d.finLost)
	d.markAcked(0, 50, false)
	require.EqualValues(t, 100, d.released())
	d.markAcked(200, 300, true)
	require.False(t, d.complete(300), "100 to 200 are missing")
	d.markAcked(100, 200, false)
	require.True(t, d.complete(300))

	d.markLost(0, 300, true) // the packets that were sent twice
	require.Empty(t, d.lost)
	require.False(t, d.finLost)
}

// Without FIN a stream is not complete, even if all its bytes have arrived.
func TestDeliveryOfFIN(t *testing.T) {
	var d delivery
	d.markAcked(0, 10, false)
	require.False(t, d.complete(10))
	d.markAcked(10, 10, true)
	require.True(t, d.complete(10))
}
