package ipfix

import (
	"bytes"
	"log/slog"
	"net"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/rtt/report/reporttest"
)

// TestCollectorComesBack has a collector that was away: it gets the whole next interval, with the templates.
func TestCollectorComesBack(t *testing.T) {
	// Others that are given any port take it at 127.0.0.1.
	first, err := net.ListenPacket("udp", "127.47.39.1:0")
	require.NoError(t, err)
	require.NoError(t, first.Close())
	var log bytes.Buffer
	e, err := New(Config{
		Address: first.LocalAddr().String(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	defer e.Close()
	require.NoError(t, e.Interval(reporttest.Interval()))
	awaitError(t, e.conn.(*net.UDPConn))
	refused := func() float64 {
		var m dto.Metric
		require.NoError(t, e.WithLabelValues("refused").Write(&m))
		return m.GetCounter().GetValue()
	}
	before := refused() // of the first of its messages

	back, err := net.ListenPacket("udp", first.LocalAddr().String())
	require.NoError(t, err)
	defer back.Close()
	require.NoError(t, back.SetReadDeadline(time.Now().Add(time.Minute))) // a failure ends
	c := &collector{t: t, conn: back, templates: make(map[uint16][]string), next: e.number}
	i := reporttest.Interval()
	require.NoError(t, e.Interval(i))
	records, _ := c.read(len(i.Prefixes))
	require.Len(t, records, len(i.Prefixes))
	require.Equal(t, before+1, refused())
	require.Contains(t, log.String(), "IPFIX messages are lost")
}

// awaitError waits until the socket has the answer that nobody listens.
func awaitError(t *testing.T, conn *net.UDPConn) {
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	var n int
	require.NoError(t, raw.Control(func(fd uintptr) {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, 30_000)
	}))
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
