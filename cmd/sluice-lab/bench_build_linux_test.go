package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckUnprotected(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	require.EqualError(t, checkUnprotected(self), self+" was built without the tag unprotected")
	require.ErrorContains(t, checkUnprotected(self+"-"), "there is no program")
}
