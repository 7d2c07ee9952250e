package interop

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// counting takes all that a subscriber gets and counts its bytes.
type counting struct{ bytes *atomic.Int64 }

func (c counting) HandleSubgroup(g *session.Subgroup) {
	n, _ := io.Copy(io.Discard, g)
	c.bytes.Add(n)
}

func (c counting) HandleDatagram(*moqt.ObjectDatagram) {}

// subscribe opens a session of its own that subscribes to a track for as long as the benchmark runs.
func subscribe(b *testing.B, url string, track moqt.FullTrackName, bytes *atomic.Int64) {
	conn, err := transport.Dial(b.Context(), url, transport.ClientConfig{Protocols: []string{moqt.Draft18.ALPN()}, Insecure: true})
	require.NoError(b, err)
	s, err := session.New(conn, session.Config{Role: session.Client, Path: "/", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	go s.Run(context.WithoutCancel(b.Context()))
	b.Cleanup(func() { s.Close(moqt.SessionNoError, "") })
	sub, err := s.Subscribe(b.Context(), moqt.Subscribe{Track: track, Parameters: moqt.Parameters{RendezvousTimeout: new(uint64(10_000))}}, counting{bytes})
	require.NoError(b, err)
	_, err = sub.Wait(b.Context())
	require.NoError(b, err)
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// residentMiB is the resident memory of a process.
func residentMiB(b *testing.B, pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b, err)
	kB, err := strconv.Atoi(string(resident.FindSubmatch(status)[1]))
	require.NoError(b, err)
	return float64(kB) / 1024
}

// oneMegabit is a clip whose video has 1 Mbit/s.
func oneMegabit(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "1mbit.mp4")
	out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=25", "-t", "8",
		"-c:v", "libx264", "-preset", "veryfast", "-b:v", "1M", "-minrate", "1M", "-maxrate", "1M", "-bufsize", "200k",
		"-x264-params", "nal-hrd=cbr", "-g", "50", "-f", "mp4", "-movflags", "+cmaf+separate_moof", "-frag_duration", "1", path).CombinedOutput()
	require.NoError(b, err, string(out))
	return path
}

// BenchmarkSubscribers has many sessions subscribe to one track of 1 Mbit/s, served by user space, and reports the
// resident memory of the relay.
func BenchmarkSubscribers(b *testing.B) {
	clip := oneMegabit(b)
	for _, n := range []int{100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := startRelay(b, "--fastpath", "off")
			start(b, nil, nil, sluiceBinary(b), "pub", "--relay", r.url("moqt"), "--tls-disable-verify", "--namespace", namespace, "--loop", clip)
			track := moqt.FullTrackName{Namespace: moqt.Namespace{"interop", "clip"}, Name: "1.m4s"}
			var bytes atomic.Int64
			for range n {
				subscribe(b, r.url("moqt"), track, &bytes)
			}
			time.Sleep(10 * time.Second) // more than two groups
			before := bytes.Load()
			const window = 10 * time.Second
			time.Sleep(window)
			b.ReportMetric(residentMiB(b, r.Process.Pid), "relay-MiB")
			b.ReportMetric(float64(bytes.Load()-before)*8/window.Seconds()/float64(n)/1e6, "Mbit/s/subscriber")
			b.ReportMetric(0, "ns/op")
		})
	}
}
