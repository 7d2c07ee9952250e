package handover

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"sluice/server"
	"sluice/server/steer"
)

const (
	// messageTimeout is how long a process may take to send or take a message that it does no work for.
	messageTimeout = 5 * time.Second
	// readyTimeout is how long a new process may take to get ready: it loads programs, which the kernel verifies for a
	// second or two, and may wait for a busy CPU.
	readyTimeout = time.Minute
	// acceptPause is how long a process that has come waits for an open file more.
	acceptPause = 100 * time.Millisecond
)

// inherited are the variables that tell the relay how to reach the service manager (sd_notify(3)).
var inherited = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC"}

// Control answers processes that are to replace a running relay, as a rule at a Unix socket.
type Control struct {
	cfg      Config
	path     string
	temp     string            // where the socket is before Publish; then ""
	listener *net.UnixListener // nil: there is no socket
	replaced chan int
	ctx      context.Context // done when closed
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	busy     sync.Mutex // held while a process takes over
	over     bool       // guarded by busy: another process has taken over
}

// Config says what a process hands over. Port and Logger are required.
type Config struct {
	Port SharedPort
	// Replaces is set if this process replaces the one that has the control socket.
	Replaces    bool
	Admin       *net.TCPListener // of the admin address
	Certificate *tls.Certificate // that the process has made itself
	// Links returns the processes that the new one makes links with: see [server.Server.LinkTargets].
	Links func() ([]server.LinkTarget, error)
	// Replaced, if not nil, is called when another process has taken over, before that one goes on.
	Replaced func(pid int)
	Logger   *slog.Logger
}

// SharedPort is a port that another process may join, and then have. A [Port] is one.
type SharedPort interface {
	// Offer returns the number of another process, the address, and the files of the group's maps.
	Offer() (steer.Number, netip.AddrPort, steer.Maps, error)
	// Promote gives new connections to the process with a number.
	Promote(steer.Number) error
	// Number returns the number of this process.
	Number() steer.Number
}

// NewControl returns a Control without a socket.
func NewControl(cfg Config) *Control {
	c := &Control{cfg: cfg, replaced: make(chan int, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Listen makes the control socket of this process, at first beside path, where nobody finds it.
func Listen(path string, cfg Config) (*Control, error) {
	if !cfg.Replaces && isServed(path) {
		return nil, fmt.Errorf("control socket: another relay has %s: choose another path", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 { // Publish would replace it
		return nil, fmt.Errorf("control socket: %s is no socket: choose another path", path)
	}
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	l, err := ListenPrivate("unixpacket", temp)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // after Publish another process may own the name
	c := NewControl(cfg)
	c.path, c.temp, c.listener = path, temp, l
	return c, nil
}

// isServed reports whether a process answers at a path.
func isServed(path string) bool {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// ListenPrivate makes a socket that only this user can connect to. network is unix or unixpacket.
func ListenPrivate(network, path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Publish puts the control socket at its path, where it replaces the old process's socket, and answers requests from
// now on.
func (c *Control) Publish() error {
	c.tasks.Go(c.accept)
	if err := os.Rename(c.temp, c.path); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	c.temp = ""
	return nil
}

// Replaced returns a channel that gets the id of the process that has taken over.
func (c *Control) Replaced() <-chan int { return c.replaced }

func (c *Control) accept() {
	for {
		conn, err := c.listener.AcceptUnix()
		switch {
		case err == nil:
			c.Answer(unixConn{conn})
		case errors.Is(err, net.ErrClosed):
			return
		default: // there are too many open files: the other process waits
			select {
			case <-time.After(acceptPause):
			case <-c.ctx.Done():
			}
		}
	}
}

// Answer answers a process. It does not wait for the end of the conversation.
func (c *Control) Answer(conn Conn) {
	c.tasks.Go(func() {
		stop := context.AfterFunc(c.ctx, func() { _ = conn.Close() })
		defer stop()
		defer conn.Close()
		c.serve(conn)
	})
}

// serve answers one process.
func (c *Control) serve(conn Conn) {
	pid, err := conn.Peer()
	if err == nil {
		err = c.handOver(conn, pid)
	}
	if err != nil {
		c.cfg.Logger.Error("another process could not take over; this one goes on", "pid", pid, "err", err)
		return
	}
	if c.cfg.Replaced != nil {
		c.cfg.Replaced(pid)
	}
	c.replaced <- pid
}

// handOver hands the port over to the process at the other end.
func (c *Control) handOver(conn Conn, pid int) error {
	if err := receiveRequest(conn); err != nil {
		return err
	}
	if !c.busy.TryLock() {
		return refuse(conn, errors.New("another process is taking over at this moment"))
	}
	defer c.busy.Unlock()
	if c.over {
		return refuse(conn, errors.New("another process has taken over already"))
	}
	o, err := c.offer(conn)
	if err != nil {
		return err
	}
	c.cfg.Logger.Info("another process is getting ready to take over", "pid", pid)
	if err := conn.SetDeadline(time.Now().Add(readyTimeout)); err != nil {
		return err
	}
	if _, err := receive(conn, new(ready)); err != nil {
		return fmt.Errorf("it did not get ready: %w", err)
	}
	if err := c.cfg.Port.Promote(o.Number); err != nil {
		return errors.Join(err, send(conn, done{Error: err.Error()}))
	}
	if err := send(conn, done{}); err != nil { // it has ended
		return errors.Join(err, c.cfg.Port.Promote(c.cfg.Port.Number()))
	}
	c.over = true
	return nil
}

// refuse tells the process why it cannot take over.
func refuse(conn Conn, why error) error {
	return errors.Join(why, conn.SetDeadline(time.Now().Add(messageTimeout)), send(conn, offer{Error: why.Error()}))
}

// receiveRequest receives the request.
func receiveRequest(conn Conn) error {
	if err := conn.SetDeadline(time.Now().Add(messageTimeout)); err != nil {
		return err
	}
	var r request
	if _, err := receive(conn, &r); err != nil {
		return err
	}
	if r.Version != version {
		return refuse(conn, fmt.Errorf(
			"the running relay hands over by version %d of the protocol, not %d: restart it instead",
			version, r.Version))
	}
	return nil
}

// offer answers the request.
func (c *Control) offer(conn Conn) (o offer, err error) {
	var maps steer.Maps
	if o.Number, o.Address, maps, err = c.cfg.Port.Offer(); err != nil {
		return o, refuse(conn, err)
	}
	if o.Certificate, err = newCertificate(c.cfg.Certificate); err != nil {
		return o, refuse(conn, err)
	}
	o.Environment = make(map[string]string)
	for _, name := range inherited {
		if v := os.Getenv(name); v != "" {
			o.Environment[name] = v
		}
	}
	o.Links = c.links()
	files := maps[:]
	if c.cfg.Admin != nil {
		f, err := c.cfg.Admin.File()
		if err != nil {
			return o, refuse(conn, err)
		}
		defer f.Close()
		files = append(files, int(f.Fd()))
	}
	return o, send(conn, o, files...)
}

// links returns the processes that the new one makes links with, this one first. The takeover does not depend on them.
func (c *Control) links() []server.LinkTarget {
	if c.cfg.Links == nil {
		return nil
	}
	targets, err := c.cfg.Links()
	if err != nil {
		c.cfg.Logger.Warn("publishers of this process will not reach subscribers of the new one", "err", err)
	}
	return targets[:min(len(targets), maxLinks)]
}

// Close closes the control socket, and removes it unless another process has it now. A process that is getting ready to
// take over learns that there is nothing to take over any more.
func (c *Control) Close() error {
	c.cancel()
	var err error
	if c.listener != nil {
		err = c.listener.Close()
	}
	c.tasks.Wait()
	if c.over || c.listener == nil {
		return err
	}
	return errors.Join(err, os.Remove(cmp.Or(c.temp, c.path)))
}
