//go:build linux

package bpf

import (
	"fmt"
	"maps"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/internal/thorough"
)

// The verifier sees different code for each set of protocols, hook and purpose.
// TestLoadEverySetting loads all programs. Those that look at less, or that only one more setting tells apart, are for
// make check, and for other kernels.
func TestLoadEverySetting(t *testing.T) {
	requireKernel(t)
	all := MonitorSettings{Tcp: 1, Icmp: 1, Dns: 1, Quic: 1, Ntp: 1, Stun: 1}
	aggregated := all
	aggregated.Aggregate, aggregated.Traffic, aggregated.Syn = 1, 1, 1
	linear := aggregated
	linear.BinWidth = 4e6
	keys := aggregated
	keys.ByPair, keys.ByVlan, keys.ByInterface, keys.ByTransport = 1, 1, 1, 1
	keys.Parts, keys.Load, keys.Groups = 1, 1, 1
	tunnels := keys
	tunnels.Tunnels, tunnels.Vlans = 1, 1
	settings := map[string]MonitorSettings{
		"nothing": {}, "TCP SYN": {Tcp: 1, Events: 1, Syn: 1, Local: 1, Merge: 1}, "all": all, "tunnels": tunnels,
	}
	if thorough.Set() {
		maps.Copy(settings, map[string]MonitorSettings{
			"TCP": {Tcp: 1}, "ICMP": {Icmp: 1}, "DNS": {Dns: 1}, "QUIC": {Quic: 1}, "NTP": {Ntp: 1}, "STUN": {Stun: 1},
			"TCP events": {Tcp: 1, Events: 1}, "aggregated": aggregated, "linear": linear, "keys": keys,
		})
	}
	for name, s := range settings {
		m, err := Load(s, testLimits, allPrograms...)
		require.NoError(t, err, name)
		m.Close()
	}
}

func TestLoadNamesUnknownProgram(t *testing.T) {
	_, err := Load(MonitorSettings{}, testLimits, "nothing")
	require.EqualError(t, err, `no program "nothing"`)
}

func TestLoadErrorsSayWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: operation not permitted": fmt.Errorf(
			"map create: %w (is it MEMLOCK?)", unix.EPERM),
		"this kernel is too old, or was built without what they need: no such program: not supported": fmt.Errorf(
			"no such program: %w", ebpf.ErrNotSupported),
		"map create: cannot allocate memory": fmt.Errorf("map create: %w", unix.ENOMEM),
	} {
		require.EqualError(t, explain(err), "load BPF programs: "+want)
	}
}
