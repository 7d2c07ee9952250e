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

// exchange has a client send from one byte to many segments to a server on its host, which sends them back.
func exchange(t testing.TB, h *lab.Host, rounds int) {
	var client, server net.Conn
	require.NoError(t, h.Do(func() error {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		if client, err = net.Dial("tcp4", l.Addr().String()); err != nil {
			return err
		}
		server, err = l.Accept()
		return err
	}))
	var serving sync.WaitGroup
	serving.Go(func() {
		defer server.Close()
		_, _ = io.Copy(server, server) // until the client has closed
	})
	rng := rand.New(rand.NewPCG(1, 1))
	for range rounds {
		b := make([]byte, 1+rng.IntN(60_000))
		go client.Write(b)
		_, err := io.ReadFull(client, make([]byte, len(b)))
		require.NoError(t, err)
	}
	require.NoError(t, client.Close())
	serving.Wait()
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
	if err := from.Do(cmd.Run); err != nil {
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
