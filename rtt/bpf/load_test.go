package bpf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every combination of switched-on protocols loads, on every hook: the verifier sees other code each time.
func TestLoadEverySetting(t *testing.T) {
	requireKernel(t)
	for bits := range uint8(64) {
		bit := func(i int) uint8 { return bits >> i & 1 }
		m, err := Load(MonitorSettings{Tcp: bit(0), Icmp: bit(1), Events: bit(2), Replay: bit(3), Dns: bit(4), Quic: bit(5)}, testLimits, allPrograms...)
		require.NoError(t, err, "settings %06b", bits)
		m.Close()
	}
}

func TestLoadNamesUnknownProgram(t *testing.T) {
	_, err := Load(MonitorSettings{}, testLimits, "nothing")
	require.EqualError(t, err, `no program "nothing"`)
}
