package main

import (
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestApply fits the Go that runs it. If another one does not have the texts, the changes have to follow.
func TestApply(t *testing.T) {
	runtime, err := runtimeSources()
	require.NoError(t, err)
	texts, err := apply(runtime)
	require.NoError(t, err)
	require.Len(t, texts, 8)
	for path, text := range texts {
		_, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		require.NoError(t, err)
	}
}

func TestAnotherGo(t *testing.T) {
	_, err := apply(t.TempDir())
	require.Error(t, err)
}
