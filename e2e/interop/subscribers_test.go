package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// memory is the memory of a process, in MiB.
type memory struct{ resident, peak float64 }

var memoryLines = regexp.MustCompile(`(?s)VmHWM:\s+(\d+) kB.*VmRSS:\s+(\d+) kB`)

func memoryOf(b *testing.B, pid int) memory {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b, err)
	m := memoryLines.FindSubmatch(status)
	require.NotNil(b, m, "no memory in /proc/%d/status", pid)
	mib := func(digits []byte) float64 {
		kB, err := strconv.Atoi(string(digits))
		require.NoError(b, err)
		return float64(kB) / 1024
	}
	return memory{resident: mib(m[2]), peak: mib(m[1])}
}

// cpuTime returns the processor time of all threads of a process.
func cpuTime(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the state on, proc_pid_stat(5)
	const utime, stime, tick = 14 - 3, 15 - 3, 10 * time.Millisecond
	var ticks int
	for _, i := range [...]int{utime, stime} {
		n, err := strconv.Atoi(fields[i])
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// oneMegabit makes a clip whose video has 1 Mbit/s.
func oneMegabit(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "1mbit.mp4")
	out, err := exec.Command("ffmpeg", "-v", "error",
		"-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=25", "-t", "8",
		"-c:v", "libx264", "-preset", "veryfast", "-g", "50",
		"-b:v", "1M", "-minrate", "1M", "-maxrate", "1M", "-bufsize", "200k", "-x264-params", "nal-hrd=cbr",
		"-f", "mp4", "-movflags", "+cmaf+separate_moof", "-frag_duration", "1", path).CombinedOutput()
	require.NoError(b, err, string(out))
	return path
}

// BenchmarkSubscribers has many sessions subscribe to one track of 1 Mbit/s, served by user space, and reports the
// resident memory of the relay.
func BenchmarkSubscribers(b *testing.B) {
	clip := oneMegabit(b)
	for _, n := range []int{100, 500, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := startRelay(b, "--fastpath", "off")
			start(b, nil, nil, "sluice", "pub", "--relay", r.url("moqt"), "--tls-disable-verify", "--namespace",
				namespace, "--loop", clip)
			c := newCrowd(b, r, moqt.FullTrackName{Namespace: moqt.Namespace{"interop", "clip"}, Name: "1.m4s"})
			c.join(n)
			time.Sleep(5 * time.Second) // more than two groups
			const window = 10 * time.Second
			before, cpu := c.bytes.Load(), cpuTime(b, r.Process.Pid)
			time.Sleep(window)
			received := c.bytes.Load() - before
			m := memoryOf(b, r.Process.Pid)
			b.ReportMetric(m.resident, "relay-MiB")
			b.ReportMetric(m.peak, "relay-peak-MiB")
			b.ReportMetric((cpuTime(b, r.Process.Pid)-cpu).Seconds()/window.Seconds(), "relay-cores")
			b.ReportMetric(float64(received)*8/window.Seconds()/float64(n)/1e6, "Mbit/s/subscriber")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// wakeUps returns how often the threads of a process have gone to sleep.
func wakeUps(b *testing.B, pid int) (sum int) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	require.NoError(b, err)
	for _, f := range files {
		status, err := os.ReadFile(f)
		require.NoError(b, err)
		m := switches.FindSubmatch(status)
		require.NotNil(b, m, "no context switches in %s", f)
		n, err := strconv.Atoi(string(m[1]))
		require.NoError(b, err)
		sum += n
	}
	return sum
}

var switches = regexp.MustCompile(`(?m)^voluntary_ctxt_switches:\s+(\d+)`)

// BenchmarkIdle has many sessions do nothing, and reports the resident memory of the relay and how often a second its
// threads wake up. Nobody sends keep-alives.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{0, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := startRelay(b, "--idle-timeout", "1h")
			c := newCrowd(b, r, moqt.FullTrackName{})
			c.quiet = true
			c.enter(n, func(ctx context.Context) error {
				_, err := c.open(ctx)
				return err
			})
			time.Sleep(20 * time.Second) // until the process has given memory back
			const window = 30 * time.Second
			before := wakeUps(b, r.Process.Pid)
			time.Sleep(window)
			b.ReportMetric(float64(wakeUps(b, r.Process.Pid)-before)/window.Seconds(), "wake-ups/s")
			b.ReportMetric(memoryOf(b, r.Process.Pid).resident, "relay-MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}
