package media

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
)

func TestAdoption(t *testing.T) {
	var a adoption
	require.Nil(t, a.find(0), "there is no forwarder")
	a.know(0)
	require.Empty(t, a.known)

	a.state = new(claim.ConnState)
	a.state.NextUni.Store(4*5 + 3) // streams 0 to 4 are open
	a.know(1)
	require.Nil(t, a.find(1), "opened by the media sender or by quic-go")
	require.Nil(t, a.find(5), "not opened by any sender")
	u := a.find(3)
	require.NotNil(t, u)
	u.limit = 77
	require.Same(t, u, a.find(3))

	taken, unknown := a.take(3)
	require.Same(t, u, taken)
	require.False(t, unknown)
	taken, unknown = a.take(2)
	require.Nil(t, taken)
	require.False(t, unknown, "nothing has happened to it")
}

// When no more can be kept, a stream that is adopted later may have lost something.
func TestAdoptionIsBounded(t *testing.T) {
	a := adoption{state: new(claim.ConnState)}
	a.state.NextUni.Store(4 * 2 * maxUnadopted)
	for n := range uint32(maxUnadopted) {
		require.NotNil(t, a.find(n))
	}
	require.Nil(t, a.find(maxUnadopted+10))
	require.Len(t, a.streams, maxUnadopted)
	for number, want := range map[uint32]bool{
		3: false, maxUnadopted + 5: true, maxUnadopted + 10: true, maxUnadopted + 11: false,
	} {
		_, unknown := a.take(number)
		require.Equal(t, want, unknown, "stream %d", number)
	}
}
