package broker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/lab/bench/load"
)

// serving serves until the test ends, and returns the socket.
func serving(t *testing.T, start Starter) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "broker")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- Serve(ctx, l, start) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
	})
	return socket
}

// Bytes after the request are the load generator's input, and its output comes back. It ends with the connection.
func TestBroker(t *testing.T) {
	asked, ended := make(chan Request, 1), make(chan error, 1)
	socket := serving(t, func(ctx context.Context, r Request, in io.Reader, out io.Writer) error {
		asked <- r
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if _, err := io.WriteString(out, strings.ToUpper(lines.Text())+"\n"); err != nil {
				return err
			}
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	want := Request{Role: Subscribers, Config: load.GeneratorConfig{URL: "moqt://[::1]:4443", Sessions: 7}}
	conn, err := Open(t.Context(), socket, want)
	require.NoError(t, err)
	require.Equal(t, want, <-asked)
	_, err = io.WriteString(conn, "go\nstop 3\n")
	require.NoError(t, err)
	answers := bufio.NewScanner(conn)
	require.True(t, answers.Scan())
	require.Equal(t, "GO", answers.Text())
	require.True(t, answers.Scan())
	require.Equal(t, "STOP 3", answers.Text())
	require.NoError(t, conn.Close())
	require.ErrorIs(t, <-ended, context.Canceled)
	_, err = Open(t.Context(), socket+"2", want)
	require.ErrorContains(t, err, "reach the machine that runs the bench")
}

// A request that cannot be served is answered with the reason.
func TestBrokerRefuses(t *testing.T) {
	socket := serving(t, func(context.Context, Request, io.Reader, io.Writer) error {
		return errors.New("the machine is off")
	})
	for request, want := range map[string]string{
		`{"role":"pub"}`:   "the machine is off",
		`{"role":"relay"}`: `role: "relay": must be "pub" or "sub"`,
		`{"role":`:         "a request is not JSON",
		`"` + strings.Repeat("x", requestSize) + `"}`: "a request has more than 65536 bytes",
	} {
		conn, err := net.Dial("unix", socket)
		require.NoError(t, err)
		go func() { _, _ = io.WriteString(conn, request+"\n") }()
		var e load.Event
		require.NoError(t, json.NewDecoder(conn).Decode(&e))
		require.Contains(t, e.Failed, want)
		require.NoError(t, conn.Close())
	}
}

// FuzzRequest reads any first line.
func FuzzRequest(f *testing.F) {
	seed, err := json.Marshal(Request{Role: Publisher, Config: load.GeneratorConfig{Publish: true, URL: "moqt://r"}})
	require.NoError(f, err)
	f.Add(append(seed, '\n'))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testlimit.Start(t, len(data), 1000)()
		near, far := net.Pipe()
		go func() {
			_, _ = far.Write(data)
			far.Close()
		}()
		defer near.Close()
		if r, err := readRequest(near); err == nil {
			require.Contains(t, []Role{Publisher, Subscribers}, r.Role)
		}
	})
}
