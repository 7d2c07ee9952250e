package syscalls

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab"
)

// The calls of the test are counted, whatever else this process calls.
func TestCount(t *testing.T) {
	const calls = 100
	c, err := Count(os.Getpid())
	if missing, ok := errors.AsType[*lab.MissingError](err); ok && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip(missing)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	for range calls {
		syscall.Getpid()
	}
	total, err := c.Stop()
	require.NoError(t, err)
	require.GreaterOrEqual(t, total["getpid"], uint64(calls))
}

func TestName(t *testing.T) {
	require.Equal(t, "getpid", name(uint32(syscall.SYS_GETPID)))
	require.Equal(t, "system call 9999", name(9999))
}
