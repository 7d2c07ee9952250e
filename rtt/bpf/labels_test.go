//go:build linux

package bpf

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/require"
)

// The labels follow from the names in C, so that neither side can change alone.
func TestLabelsAreTheKernelsNames(t *testing.T) {
	spec, err := LoadMonitor()
	require.NoError(t, err)
	for name, labels := range map[string][]Counter{"outcome": Outcomes[:], "tally": Tallies[:]} {
		var enum *btf.Enum
		require.NoError(t, spec.Types.TypeByName(name, &enum))
		require.Len(t, labels, len(enum.Values)-1, "all but the count")
		for i, label := range labels {
			require.EqualValues(t, i, enum.Values[i].Value)
			kernel := strings.TrimPrefix(enum.Values[i].Name, strings.ToUpper(name)+"_")
			require.Equal(t, strings.ReplaceAll(strings.ToLower(kernel), "_", "-"), label.Label)
			require.NotEmpty(t, label.Help)
		}
	}
}
