package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/bench/trial"
)

func TestVariants(t *testing.T) {
	both := RunConfig{Ciphers: []string{"aes", "chacha20"}, Segmentations: []string{"devices", "hosts"}}
	require.Equal(t, []variant{{"aes", "devices"}, {"chacha20", "devices"}, {"aes", "hosts"}}, both.variants())
	require.Equal(t, []variant{{"aes", "devices"}}, RunConfig{}.variants(), "what stock clients and network cards do")
	both.Machines = new(trial.Machines)
	both.Segmentations = nil
	require.Equal(t, []variant{{"aes", ""}, {"chacha20", ""}}, both.variants(), "devices are as they were set up")
}
