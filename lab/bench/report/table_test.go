package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
)

// A table says which cipher was offered and who cut bursts, if that is known of any scenario.
func TestVariantColumns(t *testing.T) {
	scenario := func(p result.Params) result.Scenario {
		return result.Scenario{Title: "one", Params: p, Summaries: []result.Summary{{System: "a"}, {System: "b"}}}
	}
	both := result.Params{Cipher: result.CipherAES, Segmentation: result.ByDevices}
	all := []result.Scenario{scenario(both), scenario(result.Params{Segmentation: result.ByHosts})}
	m := view{}.metricTable(all, nil)
	require.Equal(t, []string{"scenario", "system", "runs", "first cipher offered", "segmentation by"}, m.Columns)
	require.Equal(t, [][]string{
		{"one", "a", "0", "aes", "devices"}, {"", "b", "0", "", ""},
		{"one", "a", "0", "–", "hosts"}, {"", "b", "0", "", ""},
	}, m.Rows)
	m = view{}.metricTable([]result.Scenario{scenario(result.Params{})}, nil)
	require.Equal(t, []string{"scenario", "system", "runs"}, m.Columns)
}

func TestDifferenceOfVariants(t *testing.T) {
	a := result.Params{Cipher: result.CipherAES, Segmentation: result.ByDevices}
	b := result.Params{Cipher: "chacha20", Segmentation: result.ByDevices}
	require.Equal(t, "chacha20 first", difference([]result.Params{a, b}, b))
	c := result.Params{Cipher: result.CipherAES, Segmentation: result.ByHosts}
	require.Equal(t, "aes first, hosts cut bursts", difference([]result.Params{a, b, c}, c))
}
