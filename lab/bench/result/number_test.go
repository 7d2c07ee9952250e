package result

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 1.2345: "1.23", 12.345: "12.3", 123.45: "123", 12345.6: "12346", 0.012345: "0.0123",
		-1.5: "-1.5", 1e-9: "0", -1e-9: "0", 100: "100", math.Inf(1): "–",
	} {
		require.Equal(t, want, Number(v).String(), v)
	}
	require.Equal(t, "–", Unknown.String())
}
