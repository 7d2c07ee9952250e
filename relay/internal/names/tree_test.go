package names

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func TestTree(t *testing.T) {
	var tr Tree[string]
	all := map[string]moqt.Namespace{"": {}, "a": {"a"}, "ab": {"a", "b"}, "abc": {"a", "b", "c"}, "ax": {"a", "x"},
		"ab joined": {"ab"}}
	for v, ns := range all {
		tr.Add(ns, v)
		tr.Add(ns, v)
	}
	tests := []struct {
		ns              moqt.Namespace
		matching, under []string
	}{
		{moqt.Namespace{}, []string{""}, []string{"", "a", "ab", "ab joined", "abc", "ax"}},
		{moqt.Namespace{"a"}, []string{"", "a"}, []string{"a", "ab", "abc", "ax"}},
		{moqt.Namespace{"a", "b"}, []string{"", "a", "ab"}, []string{"ab", "abc"}},
		{moqt.Namespace{"a", "b", "c", "d"}, []string{"", "a", "ab", "abc"}, nil},
		{moqt.Namespace{"ab"}, []string{"", "ab joined"}, []string{"ab joined"}},
		{moqt.Namespace{"z"}, []string{""}, nil},
	}
	for _, tt := range tests {
		require.Equal(t, tt.matching, slices.Sorted(tr.Matching(tt.ns)), tt.ns)
		require.Equal(t, tt.under, slices.Sorted(tr.Under(tt.ns)), tt.ns)
		require.Equal(t, len(tt.matching), tr.Matches(tt.ns), tt.ns)
		require.Equal(t, len(tt.under), tr.Count(tt.ns), tt.ns)
	}
	require.Contains(t, tr.At(moqt.Namespace{"a", "b"}), "ab")
	require.Nil(t, tr.At(moqt.Namespace{"z"}))
	require.False(t, tr.Remove(moqt.Namespace{"a"}, "ab"), "it is below")
	for v, ns := range all {
		require.True(t, tr.Remove(ns, v))
		require.False(t, tr.Remove(ns, v))
	}
	require.Empty(t, tr.children)
	require.Empty(t, tr.values)
	require.Zero(t, tr.Count(nil))
}
