// Package labtest builds labs for tests.
package labtest

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab"
)

// New builds a lab that ends with the test. Where the machine cannot build one, the test is skipped and names the
// missing feature; with SLUICE_REQUIRE_KERNEL set, as in CI, it fails.
func New(t testing.TB, topology lab.Topology) *lab.Lab {
	t.Helper()
	l, err := lab.New(t.Context(), topology)
	var missing *lab.MissingError
	if errors.As(err, &missing) && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip(missing)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}
