package session

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestIDsInAnyOrder(t *testing.T) {
	for _, parity := range []uint64{0, 1} {
		r := requestIDs{parity: parity}
		require.Equal(t, parity, r.next())
		for i, id := range rand.Perm(1000) {
			id := uint64(id)*2 + parity
			require.False(t, r.isUsed(id))
			require.NoError(t, r.use(id), "request %d", i)
			require.True(t, r.isUsed(id))
			require.Error(t, r.use(id))
			require.Error(t, r.use(id^1))
		}
		require.Len(t, r.used, 1)
		require.Equal(t, 2000+parity, r.next())
	}
}

func TestRequestIDsWithGaps(t *testing.T) {
	r := requestIDs{}
	for id := uint64(0); id < 8*maxIDGaps; id += 4 {
		require.NoError(t, r.use(id))
	}
	require.Len(t, r.used, maxIDGaps, "memory is bounded")
	require.NoError(t, r.use(8*maxIDGaps-2), "recent gaps are open")
	require.Error(t, r.use(2), "old gaps are not")
	require.NoError(t, r.use(1<<63))
	require.Equal(t, uint64(1<<63+2), r.next())
}
