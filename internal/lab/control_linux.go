package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Control is how other processes reach the lab that this process holds: HTTP on an abstract Unix socket, which exists
// as long as the process and tells by its name that the lab is up.
type Control struct {
	name     string
	listener net.Listener
	server   http.Server
}

const socketPrefix = "@sluice-lab/"

// ErrNotUp means that no lab of that name exists.
var ErrNotUp = errors.New("is not up")

// Listen reserves the name of a lab.
func Listen(name string) (*Control, error) {
	if name == "" || strings.ContainsAny(name, "/ \x00") || len(name) > 64 {
		return nil, fmt.Errorf("lab: %q is no name: 1 to 64 bytes without slash and space", name)
	}
	listener, err := net.Listen("unix", socketPrefix+name)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("lab: %s is already up (take it down, or choose another name)", name)
	}
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return &Control{name: name, listener: trusted{listener}}, nil
}

// Close gives the name back and tells who asked to take the lab down that this is done.
func (c *Control) Close() error {
	return errors.Join(c.server.Close(), ignoreClosed(c.listener.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Serve answers requests until ctx is done or somebody asks to take the lab down. The caller then closes the lab and
// the Control, in this order.
func (c *Control) Serve(ctx context.Context, l *Lab) error {
	ctx, down := context.WithCancel(ctx)
	defer down()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		status, err := l.Status()
		if ctx.Err() != nil {
			err = errors.New("is being taken down")
		}
		status.Name = c.name
		reply(w, status, err)
	})
	mux.HandleFunc("POST /link", func(w http.ResponseWriter, r *http.Request) {
		var change Change
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&change)
		if err == nil {
			err = l.Apply(change)
		}
		reply(w, struct{}{}, err)
	})
	// From here on /status refuses, which Exec relies upon. The answer is the end of the connection, in Close.
	mux.HandleFunc("POST /down", func(_ http.ResponseWriter, r *http.Request) {
		down()
		<-r.Context().Done()
	})
	c.server.Handler, c.server.ReadHeaderTimeout = mux, 10*time.Second
	stop := context.AfterFunc(ctx, func() { c.listener.Close() })
	defer stop()
	if err := c.server.Serve(c.listener); ctx.Err() == nil {
		return fmt.Errorf("lab: control: %w", err)
	}
	return nil
}

func reply(w http.ResponseWriter, value any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value)
}

// trusted is a listener that accepts connections from processes of root and of the own user only: an abstract socket
// has no file permissions.
type trusted struct{ net.Listener }

func (t trusted) Accept() (net.Conn, error) {
	for {
		conn, err := t.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if _, err := peer(conn); err == nil {
			return conn, nil
		}
		conn.Close()
	}
}

// peer returns the process at the other end, or an error if its user is neither root nor that of this process.
func peer(conn net.Conn) (*unix.Ucred, error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	if ctl := raw.Control(func(fd uintptr) {
		cred,
			err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); ctl != nil {
		return nil, ctl
	}
	if err != nil {
		return nil, err
	}
	if cred.Uid != 0 && cred.Uid != uint32(os.Geteuid()) {
		return nil, fmt.Errorf("process %d of user %d is not trusted", cred.Pid, cred.Uid)
	}
	return cred, nil
}

// Client talks to the process that holds a lab.
type Client struct {
	name string
	http *http.Client
}

// Dial finds the lab of a name; the error is ErrNotUp if there is none.
func Dial(name string) (*Client, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socketPrefix+name)
		if err != nil {
			return nil, err
		}
		if _, err := peer(conn); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
	conn, err := dial(context.Background(), "", "")
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("lab %s %w", name, ErrNotUp)
	}
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	conn.Close()
	return &Client{name, &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
}

// Status asks for the state of the lab; it waits for one that is being built.
func (c *Client) Status(ctx context.Context) (status Status, err error) {
	err = c.do(ctx, http.MethodGet, "/status", nil, &status)
	return status, err
}

// Apply asks for a change of a link.
func (c *Client) Apply(ctx context.Context, change Change) error {
	return c.do(ctx, http.MethodPost, "/link", change, &struct{}{})
}

// Down takes the lab down and returns when that is done.
func (c *Client) Down(ctx context.Context) error {
	err := c.do(ctx, http.MethodPost, "/down", nil, nil)
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	return err
}

func (c *Client) do(ctx context.Context, method, path string, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("lab %s: %w", c.name, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<12))
		return fmt.Errorf("lab %s: %s", c.name, bytes.TrimSpace(text))
	}
	if response == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(response)
}

// Names lists the labs that are up on this machine.
func Names() ([]string, error) {
	sockets, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	var names []string
	for line := range strings.Lines(string(sockets)) {
		// Only the listening socket counts: its flags (the fourth field) are those of a socket that accepts.
		fields := strings.Fields(line)
		if len(fields) == 8 && fields[3] == "00010000" {
			if name, ok := strings.CutPrefix(fields[7], socketPrefix); ok {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
