package trial

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/measure"
)

func TestCountPackets(t *testing.T) {
	require.Equal(t, 2, countPackets([]measure.Packet{
		{Point: measure.In, Length: 1200},
		{Point: measure.Out, Length: 1200},
		{Point: measure.Out, Length: measure.MinLength - 1}, // an acknowledgement
		{Point: measure.Out, Length: measure.MinLength},
	}, 1))
	require.Equal(t, 1, countPackets([]measure.Packet{
		{Point: measure.Out, Length: 1200}, // to the next relay
		{Point: 2, Length: 1200},
	}, 2))
}
