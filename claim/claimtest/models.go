package claimtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim/internal/check"
)

// Model checks a model of the protocol: with all rules, and without each of those that must then break an invariant.
// The code that the rules name is below a directory.
func Model[S comparable](
	t *testing.T, dir string, invariants map[string]string, without func(rule string) check.Model[S],
) {
	t.Run("whole", func(t *testing.T) {
		require.Empty(t, without("").Missing(dir))
		r := without("").Check()
		t.Log(r)
		require.Empty(t, r.Wrong, r)
	})
	for rule, invariant := range invariants {
		t.Run(rule, func(t *testing.T) {
			r := without(rule).Check()
			t.Log(r)
			require.True(t, strings.HasPrefix(r.Wrong, invariant+":"), r)
		})
	}
}
