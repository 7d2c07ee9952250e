package streams

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProtocol(t *testing.T) {
	r := New("").Check()
	t.Log(r)
	require.Empty(t, r.Wrong, r)
}

func TestBrokenRules(t *testing.T) {
	for rule, invariant := range Rules {
		t.Run(rule, func(t *testing.T) {
			r := New(rule).Check()
			t.Log(r)
			require.True(t, strings.HasPrefix(r.Wrong, invariant+":"), r)
		})
	}
}

// TestCode expects the code that the rules name to exist.
func TestCode(t *testing.T) { require.Empty(t, New("").Missing("../../..")) }
