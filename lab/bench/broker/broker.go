package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"sluice/lab/bench/load"
)

// Role is a machine of a bench.
type Role string

// The machines. The relay's machine asks, the others have load generators.
const (
	Publisher   Role = "pub"
	Relay       Role = "relay"
	Subscribers Role = "sub"
)

// Request asks for a load generator. It is the first line of a connection.
type Request struct {
	Role   Role                 `json:"role"`
	Config load.GeneratorConfig `json:"config"`
}

// Open starts a load generator through the broker at a Unix socket, and returns a connection to its input and output.
// It ends when the connection is closed.
func Open(ctx context.Context, socket string, r Request) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("reach the machine that runs the bench: %w", err)
	}
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Starter runs a load generator with this input and output until it has ended, or the context is done.
type Starter func(ctx context.Context, r Request, in io.Reader, out io.Writer) error

const (
	// requestTime is how long a request may take to arrive.
	requestTime = 30 * time.Second
	// requestSize is the size of the largest request, bytes.
	requestSize = 1 << 16
)

// Serve starts a load generator for each connection to a listener, until the context is done.
func Serve(ctx context.Context, l net.Listener, start Starter) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go serve(ctx, conn, start)
	}
}

// serve starts the load generator of a connection. Why it could not be started, or failed, is an event of its own.
func serve(ctx context.Context, conn net.Conn, start Starter) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r, err := readRequest(conn)
	if err == nil {
		in, feed := io.Pipe()
		go func() {
			_, err := io.Copy(feed, conn)
			feed.CloseWithError(err)
			cancel() // nobody listens any more
		}()
		err = start(ctx, r, in, conn)
	}
	if err != nil && ctx.Err() == nil {
		_ = json.NewEncoder(conn).Encode(load.Event{Failed: err.Error()}) // fails only if nobody listens
	}
}

// readRequest reads the first line, and not a byte more: the rest is for the load generator.
func readRequest(conn net.Conn) (r Request, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(requestTime)); err != nil {
		return r, err
	}
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := io.ReadFull(conn, b); err != nil {
			return r, err
		}
		if b[0] == '\n' {
			break
		}
		if len(line) == requestSize {
			return r, fmt.Errorf("a request has more than %d bytes", requestSize)
		}
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("a request is not JSON: %w", err)
	}
	if r.Role != Publisher && r.Role != Subscribers {
		return r, fmt.Errorf("role: %q: must be %q or %q", r.Role, Publisher, Subscribers)
	}
	return r, conn.SetReadDeadline(time.Time{})
}
