package softirq

import (
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
)

// Packets on loopback are received in softirqs, in the time of the process that sends them.
func TestWatch(t *testing.T) {
	begin := time.Now()
	w, err := Begin(os.Getpid())
	if missing, ok := errors.AsType[*lab.MissingError](err); ok && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip(missing)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer conn.Close()
	const packets = 100
	for range packets {
		_, err := conn.WriteTo([]byte("packet"), conn.LocalAddr())
		require.NoError(t, err)
	}
	total, err := w.Total()
	require.NoError(t, err)
	require.GreaterOrEqual(t, total, packets*time.Nanosecond, "each takes some time")
	require.LessOrEqual(t, total, time.Since(begin)*time.Duration(runtime.NumCPU()))
}
