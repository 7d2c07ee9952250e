package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
	"sluice/internal/logs/logstest"
)

const (
	clipFile  = "../../testdata/clip.mp4"
	namespace = "interop/clip"
)

func TestMain(m *testing.M) { os.Exit(clitest.Main(m, "sluice", "sluice-rtt")) }

// client returns the path of one of the public clients.
func client(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("SLUICE_INTEROP")
	if dir == "" {
		t.Skip("needs the public clients: run make interop")
	}
	path := filepath.Join(dir, name)
	require.FileExists(t, path)
	return path
}

// process is a program that the test runs. It ends with the test.
type process struct {
	*exec.Cmd
	output logstest.Buffer
	done   chan struct{}
	err    error
}

// starter starts a program where it is to run.
type starter func(*exec.Cmd) error

// start runs a program, with its standard input from in and its standard output to out, where they are not nil.
func start(t testing.TB, in io.Reader, out io.Writer, path string, args ...string) *process {
	t.Helper()
	return startBy(t, (*exec.Cmd).Start, in, out, path, args...)
}

func startBy(t testing.TB, s starter, in io.Reader, out io.Writer, path string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.Stdin, p.Stdout, p.Stderr = in, out, &p.output
	if out == nil {
		p.Stdout = &p.output
	}
	p.WaitDelay = time.Second
	require.NoError(t, s(p.Cmd))
	go func() {
		p.err = p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(path), p.output.String())
		}
	})
	return p
}

// wait expects the program to succeed within a time.
func (p *process) wait(t *testing.T, within time.Duration) {
	t.Helper()
	select {
	case <-p.done:
		require.NoError(t, p.err, p.output.String())
	case <-time.After(within):
		t.Fatalf("%s still runs after %v:\n%s", p.Path, within, p.output.String())
	}
}

// stop asks the program to end, and ends it if it does not.
func (p *process) stop() {
	_ = p.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.Process.Kill()
		<-p.done
	}
}

// relay is a running sluice relay.
type relay struct {
	*process
	port, admin int
	sha256      string // of its certificate
}

var fingerprint = regexp.MustCompile(`[0-9a-f]{64}`)

func startRelay(t testing.TB, flags ...string) *relay {
	t.Helper()
	r := &relay{port: freePort(t), admin: freePort(t)}
	r.run(t, flags...)
	require.Eventually(t, func() bool { return r.healthy() }, time.Minute, 20*time.Millisecond,
		"the relay does not start")
	r.readFingerprint(t)
	return r
}

// run starts a process of the relay.
func (r *relay) run(t testing.TB, flags ...string) {
	t.Helper()
	r.process = start(t, nil, nil, "sluice", append([]string{"relay", "--dev",
		"--listen", fmt.Sprintf("127.0.0.1:%d", r.port), "--admin", fmt.Sprintf("127.0.0.1:%d", r.admin)}, flags...)...)
}

// readFingerprint waits until the relay has printed it.
func (r *relay) readFingerprint(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.sha256 = fingerprint.FindString(r.output.String())
		return r.sha256 != ""
	}, time.Minute, 10*time.Millisecond, "the relay does not print its fingerprint")
}

func (r *relay) healthy() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/healthz", r.admin),
		nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// url returns the relay's URL for raw QUIC (moqt) or WebTransport (https).
func (r *relay) url(scheme string) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, r.port) }

// freePort returns a port that is free for UDP and TCP.
func freePort(t testing.TB) int {
	t.Helper()
	addr, err := clitest.FreeAddress()
	require.NoError(t, err)
	return int(netip.MustParseAddrPort(addr).Port())
}
