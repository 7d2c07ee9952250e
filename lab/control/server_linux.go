package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/lab"
)

// Server is how other processes reach the lab that this process holds: HTTP on an abstract Unix socket. The socket
// exists as long as the process, and its name shows that the lab is up.
type Server struct {
	name     string
	listener net.Listener
	server   http.Server
}

const socketPrefix = "@sluice-lab/"

// maxName is the length of the longest name of a lab.
const maxName = 64

// ErrNotUp means that no lab of that name exists.
var ErrNotUp = errors.New("is not up")

// Listen reserves the name of a lab.
func Listen(name string) (*Server, error) {
	if name == "" || strings.ContainsAny(name, "/ \x00") || len(name) > maxName {
		return nil, fmt.Errorf("lab: name: %q: must be 1 to %d bytes without slash and space", name, maxName)
	}
	listener, err := net.Listen("unix", socketPrefix+name)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("lab: %s is already up (take it down, or choose another name)", name)
	}
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return &Server{name: name, listener: trusted{listener}}, nil
}

// Close releases the name, and tells the client that asked to take the lab down that it is down.
func (c *Server) Close() error {
	return errors.Join(c.server.Close(), ignoreClosed(c.listener.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Serve answers requests until ctx is done or a client asks to take the lab down. The caller then closes the lab and
// the Server, in this order.
func (c *Server) Serve(ctx context.Context, l *lab.Lab) error {
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
		var change lab.Change
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&change)
		if err == nil {
			err = l.Apply(change)
		}
		reply(w, struct{}{}, err)
	})
	// From here on /status refuses requests, which Client.Exec relies on. Close ends the connection: this is the
	// answer.
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

// trusted is a listener that accepts connections only from processes of root or the same user: an abstract socket has
// no file permissions.
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

// peer returns the process at the other end, or an error if its user is neither root nor this process's.
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
