package trial

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/measure"
)

func TestCountPackets(t *testing.T) {
	require.Equal(t, 2, countPackets([]measure.Packet{
		{Point: IntoRelay, Length: 1200},
		{Point: OutOfRelay, Length: 1200},
		{Point: OutOfRelay, Length: measure.MinLength - 1}, // an acknowledgement
		{Point: OutOfRelay, Length: measure.MinLength},
	}, 1))
	require.Equal(t, 1, countPackets([]measure.Packet{
		{Point: OutOfRelay, Length: 1200}, // to the next relay
		{Point: 2, Length: 1200},
	}, 2))
}
