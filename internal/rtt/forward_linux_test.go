package rtt

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/rtt/bpf"
	"sluice/internal/rtt/internal/flood"
	"sluice/internal/rtt/output"
)

// A watcher watches what a benchmark forwards, until stop is called.
type watcher struct {
	name  string
	start func(b *testing.B) (stop func())
}

// watchers returns no monitor, Sluice, and, if SLUICE_EPPING has the path of its program, ePPing with the same options.
func watchers() []watcher {
	list := []watcher{
		{"off", func(*testing.B) func() { return func() {} }},
		{"every-RTT", sluiceWatcher(MonitorConfig{RateLimit: -1})},
		{"sampled", sluiceWatcher(MonitorConfig{})},
		{"aggregated", sluiceWatcher(MonitorConfig{RateLimit: -1, Aggregate: time.Second})},
	}
	program := os.Getenv("SLUICE_EPPING")
	if program == "" {
		return list
	}
	return append(list,
		watcher{"ePPing-every-RTT", eppingWatcher(program, "-r 0")},
		watcher{"ePPing-sampled", eppingWatcher(program, "-r 100")},
		watcher{"ePPing-aggregated", eppingWatcher(program, "-r 0 -a 1")})
}

func sluiceWatcher(cfg MonitorConfig) func(*testing.B) func() {
	return func(b *testing.B) func() {
		out, err := output.New(output.Standard, func() (io.WriteCloser, error) { return nopCloser{io.Discard}, nil })
		require.NoError(b, err)
		cfg.Interfaces, cfg.Sink, cfg.Logger = []string{flood.Inside}, out, slog.New(slog.DiscardHandler)
		m, err := New(cfg)
		require.NoError(b, err)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { err = m.Run(ctx) })
		return func() {
			cancel()
			wg.Wait()
			require.NoError(b, err)
			counted, err := m.kernel.Counters()
			require.NoError(b, err)
			require.NotZero(b, counted.Tally[bpf.MonitorTallyTALLY_RTTS], "nothing was measured")
			require.NoError(b, m.Close())
		}
	}
}

func eppingWatcher(program, options string) func(*testing.B) func() {
	return func(b *testing.B) func() {
		cmd := exec.Command(program, append(strings.Fields(options), "-T", "-i", flood.Inside)...)
		cmd.Dir = filepath.Dir(program) // where it looks for its object file
		require.NoError(b, cmd.Start())
		awaitPrograms(b)
		return func() {
			require.NoError(b, cmd.Process.Signal(os.Interrupt))
			require.NoError(b, cmd.Wait())
		}
	}
}

// awaitPrograms waits until there are programs on both hooks of the device.
func awaitPrograms(b *testing.B) {
	device, err := netlink.LinkByName(flood.Inside)
	require.NoError(b, err)
	attached := func(hook ebpf.AttachType) bool {
		q, err := link.QueryPrograms(link.QueryOptions{Target: device.Attrs().Index, Attach: hook})
		require.NoError(b, err)
		return len(q.Programs) > 0
	}
	for range 1000 {
		if attached(ebpf.AttachTCXIngress) && attached(ebpf.AttachTCXEgress) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.Fatal("nothing is attached")
}

// segments is the number of segments that each step of BenchmarkForwarding forwards, and the number of ACKs.
const segments = 8192

// BenchmarkForwarding forwards TCP through a router on one CPU, data one way and ACKs back, with and without a watcher
// on the device where data arrives. ns/packet includes all of the kernel's work for a packet.
func BenchmarkForwarding(b *testing.B) {
	requireKernel(b)
	for _, flows := range []int{1, 10, 100, 1000} {
		for _, w := range watchers() {
			b.Run(fmt.Sprintf("%d-flows/%s", flows, w.name), func(b *testing.B) {
				var wg sync.WaitGroup
				wg.Go(func() { forwarding(b, flows, w) })
				wg.Wait()
			})
		}
	}
}

// forwarding runs on its own thread, in its own network namespace. Both end with it.
func forwarding(b *testing.B, flows int, w watcher) {
	runtime.LockOSThread()
	require.NoError(b, unix.Unshare(unix.CLONE_NEWNET))
	r, err := flood.New(flows)
	require.NoError(b, err)
	defer r.Close()
	stop := w.start(b)
	defer stop()
	var cpu unix.CPUSet
	cpu.Set(runtime.NumCPU() - 1)
	require.NoError(b, unix.SchedSetaffinity(0, &cpu))
	_, err = r.Forward(segments) // flows are known from here on
	require.NoError(b, err)
	var spent time.Duration
	packets := 0
	for b.Loop() {
		t, err := r.Forward(segments)
		require.NoError(b, err)
		spent += t
		packets += 2 * segments
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(packets), "ns/packet")
	b.ReportMetric(float64(packets)/spent.Seconds()/1e6, "Mpps")
}
