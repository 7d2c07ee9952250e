package syscalls

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab"
)

// The calls of the test are counted, and their time is taken, whatever else this process calls.
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
	const asleep = 10 * time.Millisecond
	sleep := unix.NsecToTimespec(asleep.Nanoseconds())
	require.NoError(t, unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &sleep, nil))
	total, err := c.Stop()
	require.NoError(t, err)
	require.GreaterOrEqual(t, total["getpid"].Count, uint64(calls))
	require.Positive(t, total["getpid"].Time)
	require.GreaterOrEqual(t, total["clock_nanosleep"].Time, asleep)
}

func TestName(t *testing.T) {
	require.Equal(t, "getpid", name(uint32(syscall.SYS_GETPID)))
	require.Equal(t, "system call 9999", name(9999))
}
