package rtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// monitorAt makes a Monitor inside a host.
func monitorAt(t testing.TB, h *lab.Host, cfg MonitorConfig) (m *Monitor) {
	t.Helper()
	require.NoError(t, h.Do(func() (err error) {
		m, err = New(cfg)
		return err
	}))
	return m
}

// measuring runs a Monitor inside a host until end is called, which returns all that the Sink took. Samples are sorted
// by time: CPUs report theirs in batches.
func measuring(t testing.TB, h *lab.Host, cfg MonitorConfig) (end func() *reporttest.Sink) {
	_, end = monitoring(t, h, cfg)
	return end
}

// monitoring is measuring, and returns the Monitor, too.
func monitoring(t testing.TB, h *lab.Host, cfg MonitorConfig) (m *Monitor, end func() *reporttest.Sink) {
	got := new(reporttest.Sink)
	cfg.Sink = got
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m = monitorAt(t, h, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = m.Run(ctx) })
	return m, func() *reporttest.Sink {
		cancel()
		wg.Wait()
		require.NoError(t, err)
		require.NoError(t, m.Close())
		slices.SortStableFunc(got.Samples, func(a, b report.Sample) int { return a.Time.Compare(b.Time) })
		return got
	}
}

// exchange makes the client send requests and the server answer them, both of sizes from one byte to many segments.
func exchange(t testing.TB, client, server *lab.Host, rounds int) {
	at := netip.AddrPortFrom(server.Facing(client).IPv4.Addr(), 5000)
	var l net.Listener
	require.NoError(t, server.Do(func() (err error) {
		l, err = net.Listen("tcp4", at.String())
		return err
	}))
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.Accept()
		require.NoError(t, err)
		defer c.Close()
		serve(t, c)
	})
	var c net.Conn
	require.NoError(t, client.Do(func() (err error) {
		c, err = net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(at))
		return err
	}))
	rng := rand.New(rand.NewPCG(1, 1))
	for range rounds {
		request := make([]byte, 5+rng.IntN(60_000))
		copy(request, fmt.Appendf(nil, "%04x", rng.IntN(40_000)))
		request[4] = 0
		_, err := c.Write(append(fmt.Appendf(nil, "%06x", len(request)), request...))
		require.NoError(t, err)
		var size int
		_, err = fmt.Sscanf(string(request[:4]), "%x", &size)
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, size))
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	wg.Wait()
	require.NoError(t, l.Close())
}

// serve reads "LENGTH, SIZE, …" requests and answers each with SIZE bytes.
func serve(t testing.TB, c net.Conn) {
	for {
		var length, size int
		head := make([]byte, 6)
		if _, err := io.ReadFull(c, head); err != nil {
			return // the client has closed
		}
		_, err := fmt.Sscanf(string(head), "%x", &length)
		require.NoError(t, err)
		request := make([]byte, length)
		_, err = io.ReadFull(c, request)
		require.NoError(t, err)
		_, err = fmt.Sscanf(string(request[:4]), "%x", &size)
		require.NoError(t, err)
		_, err = c.Write(make([]byte, size))
		require.NoError(t, err)
	}
}

// ping sends echoes, one every 20 ms, and returns the RTTs that it saw.
func ping(t testing.TB, from *lab.Host, to netip.Addr, count int) (rtts []time.Duration) {
	if _, err := exec.LookPath("ping"); err != nil {
		if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
			t.Fatal("needs ping (package iputils-ping)")
		}
		t.Skip("needs ping (package iputils-ping)")
	}
	cmd := exec.Command("ping", "-i", "0.02", "-c", fmt.Sprint(count), "-W", "2", to.String())
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := from.Run(cmd); err != nil {
		_, lost := errors.AsType[*exec.ExitError](err)
		require.True(t, lost, "%v", err)
	}
	for _, match := range regexp.MustCompile(`time=([0-9.]+) ms`).FindAllStringSubmatch(out.String(), -1) {
		d, err := time.ParseDuration(match[1] + "ms")
		require.NoError(t, err)
		rtts = append(rtts, d)
	}
	return rtts
}
