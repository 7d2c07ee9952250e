package bpf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The verifier sees other code for each set of protocols, hook and purpose.
func TestLoadEverySetting(t *testing.T) {
	requireKernel(t)
	all := MonitorSettings{Tcp: 1, Icmp: 1, Dns: 1, Quic: 1}
	aggregated := all
	aggregated.Aggregate, aggregated.Traffic, aggregated.BinWidth = 1, 1, 4e6
	for name, s := range map[string]MonitorSettings{
		"nothing": {}, "TCP": {Tcp: 1}, "ICMP": {Icmp: 1}, "DNS": {Dns: 1}, "QUIC": {Quic: 1}, "TCP events": {Tcp: 1, Events: 1},
		"TCP SYN": {Tcp: 1, Events: 1, Syn: 1, Local: 1, Merge: 1}, "all": all, "aggregated": aggregated,
	} {
		m, err := Load(s, testLimits, allPrograms...)
		require.NoError(t, err, name)
		m.Close()
	}
}

func TestLoadNamesUnknownProgram(t *testing.T) {
	_, err := Load(MonitorSettings{}, testLimits, "nothing")
	require.EqualError(t, err, `no program "nothing"`)
}
