package handover

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/server"
	"sluice/server/steer"
	"sluice/transport"
)

const protocol = "test"

// quiet returns the configuration of a port with sockets.
func quiet(sockets int) PortConfig {
	return PortConfig{Sockets: sockets, Shared: true, Logger: slog.New(slog.DiscardHandler)}
}

// process is a process's part of a relay: a listener that says its name on each stream.
type process struct {
	port     *Port
	listener *transport.Listener
	cert     *tls.Certificate
	control  *Control
	replaced func(int)

	mu      sync.Mutex // guards the result of links
	targets []server.LinkTarget
	failure error
}

func (p *process) links() ([]server.LinkTarget, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.targets, p.failure
}

func (p *process) setLinks(targets []server.LinkTarget, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets, p.failure = targets, failure
}

// listen makes the listener of a process.
func listen(t *testing.T, name, addr string, port *Port, configure ...func(*transport.ListenConfig)) *process {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg := transport.ListenConfig{Certificate: &cert, Protocols: []string{protocol}}
	for _, f := range configure {
		f(&cfg)
	}
	port.Configure(&cfg)
	l, err := transport.Listen(addr, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go serve(l, name)
	return &process{port: port, listener: l, cert: &cert}
}

func serve(l *transport.Listener, name string) {
	for {
		c, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		go func() {
			for {
				s, err := c.AcceptStream(context.Background())
				if err != nil {
					return
				}
				_, _ = s.Write([]byte(name)) // fails only if the client has gone
				_ = s.Close()
			}
		}()
	}
}

// open gives the process a control socket.
func (p *process) open(t *testing.T, path string, admin *net.TCPListener) {
	t.Helper()
	var err error
	p.control, err = Listen(path, Config{
		Port: p.port, Replaces: p.port.from != nil, Admin: admin, Certificate: p.cert, Links: p.links,
		Replaced: p.replaced, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.control.Close() })
}

// needSteering skips a test where several sockets cannot share a port.
func needSteering(t *testing.T) {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer c.Close()
	g, err := steer.Create(c, 1)
	if err != nil && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skipf("needs CAP_BPF: %v", err)
	}
	require.NoError(t, err)
	require.NoError(t, g.Close())
}

// first starts a process that has the port alone.
func first(t *testing.T, path string, admin *net.TCPListener, sockets int) *process {
	t.Helper()
	p := listen(t, "first", "127.0.0.1:0", NewPort(quiet(sockets)))
	t.Cleanup(func() { _ = p.port.Close() })
	if p.port.reason != nil && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skipf("needs CAP_BPF: %v", p.port.reason)
	}
	require.NoError(t, p.port.reason)
	p.open(t, path, admin)
	require.NoError(t, p.control.Publish())
	return p
}

// requested makes a request as soon as the running process has noticed the end of the previous one.
func requested(t *testing.T, path string) (from *Takeover) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		var err error
		from, err = Request(path)
		return err == nil
	}, time.Minute, time.Millisecond)
	t.Cleanup(func() { _ = from.Close() })
	return from
}

// next starts a process that listens with the port of a running one.
func (p *process) next(t *testing.T, name string, from *Takeover, sockets int) *process {
	t.Helper()
	n := listen(t, name, p.listener.Addr().String(), from.Port(quiet(sockets)))
	t.Cleanup(func() { _ = n.port.Close() })
	return n
}

// dial connects a client.
func dial(t *testing.T, addr net.Addr) transport.Conn {
	t.Helper()
	c, err := transport.Dial(t.Context(), "moqt://"+addr.String(),
		transport.ClientConfig{Insecure: true, Protocols: []string{protocol}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.CloseWithError(0, "") })
	return c
}

// ask returns the name of the process that has a session.
func ask(t *testing.T, c transport.Conn) string {
	t.Helper()
	s, err := c.OpenStream()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	name, err := io.ReadAll(s)
	require.NoError(t, err)
	return string(name)
}

// TestReplacedIsCalledFirst: a new process goes on only when the service manager has been told of it, however slowly.
func TestReplacedIsCalledFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	one := listen(t, "first", "127.0.0.1:0", NewPort(quiet(1)))
	defer one.port.Close()
	needSteering(t)
	var told atomic.Int64
	one.replaced = func(pid int) {
		time.Sleep(50 * time.Millisecond)
		told.Store(int64(pid))
	}
	one.open(t, path, nil)
	require.NoError(t, one.control.Publish())

	from := requested(t, path)
	one.next(t, "second", from, 1)
	require.NoError(t, from.Commit())
	require.EqualValues(t, os.Getpid(), told.Load())
}

// TestTakeover replaces a process twice. Sessions stay where they are, and new ones get to the newest process.
func TestTakeover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	admin, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer admin.Close()
	t.Setenv("NOTIFY_SOCKET", "/somewhere")
	one := first(t, path, admin, 1)
	addr := one.listener.Addr()
	old := dial(t, addr)
	require.Equal(t, "first", ask(t, old))

	from := requested(t, path)
	require.Equal(t, "/somewhere", from.offer.Environment["NOTIFY_SOCKET"])
	cert, err := from.Certificate()
	require.NoError(t, err)
	require.Equal(t, one.cert.Certificate, cert.Certificate)
	require.Equal(t, one.cert.PrivateKey, cert.PrivateKey)
	two := one.next(t, "second", from, 1)
	taken, err := from.ListenTCP(admin.Addr().String())
	require.NoError(t, err)
	require.Equal(t, admin.Addr(), taken.Addr())
	two.open(t, path, taken)
	require.Equal(t, "first", ask(t, dial(t, addr)), "before the takeover")
	require.NoError(t, from.Commit())
	require.NoError(t, two.control.Publish())
	require.Equal(t, os.Getpid(), <-one.control.Replaced())

	middle := dial(t, addr)
	require.Equal(t, "second", ask(t, middle))
	require.Equal(t, "first", ask(t, old))
	_, err = dialControl(path)
	require.NoError(t, err)

	again := requested(t, path)
	three := two.next(t, "third", again, 1)
	three.open(t, path, nil)
	require.NoError(t, again.Commit())
	require.NoError(t, three.control.Publish())
	<-two.control.Replaced()
	require.Equal(t, "third", ask(t, dial(t, addr)))
	require.Equal(t, "second", ask(t, middle))
	require.Equal(t, "first", ask(t, old))
	require.NoError(t, errors.Join(admin.Close(), taken.Close()))
	_, err = net.Dial("tcp", admin.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "the third process has no admin address")

	require.NoError(t, one.port.Tell(2))
	require.NoError(t, two.port.Tell(1))
	draining, err := three.port.Draining()
	require.NoError(t, err)
	require.Len(t, draining, 2)
	require.NoError(t, one.listener.Close())
	require.NoError(t, one.control.Close())
	draining, err = three.port.Draining()
	require.NoError(t, err)
	require.Equal(t, []steer.Process{{PID: os.Getpid(), Sessions: 1}}, draining)
	require.Equal(t, "third", ask(t, dial(t, addr)))
	require.Equal(t, "second", ask(t, middle))
	require.FileExists(t, path, "the control socket belongs to the newest process")
	require.NoError(t, two.control.Close())
	require.NoError(t, three.control.Close())
	require.NoFileExists(t, path)
	metrics := make(chan prometheus.Metric, 10)
	three.port.Collect(metrics)
	require.Len(t, metrics, 5)
	require.NoError(t, three.port.Close())
	require.Error(t, three.port.Tell(1))
	draining, err = three.port.Draining()
	require.NoError(t, err)
	require.Empty(t, draining)
}

func dialControl(path string) (*net.UnixConn, error) {
	return net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
}

// TestTakeoverOfSockets replaces a process by one with more sockets, and that by one with a single socket. Sessions
// stay where they are, and new ones get to the newest process.
func TestTakeoverOfSockets(t *testing.T) {
	needSteering(t)
	path := filepath.Join(t.TempDir(), "control")
	running := first(t, path, nil, 2)
	addr := running.listener.Addr()
	processOf := make(map[transport.Conn]string)
	connect := func(name string) {
		for range 12 { // to each of the sockets, as a rule
			processOf[dial(t, addr)] = name
		}
		for c, name := range processOf {
			require.Equal(t, name, ask(t, c))
		}
	}
	connect("first")
	for _, next := range []struct {
		name              string
		sockets, arrivals int
	}{{"second", 4, 4}, {"third", 1, 0}} {
		from := requested(t, path)
		p := running.next(t, next.name, from, next.sockets)
		require.Len(t, p.listener.PacketConns(), next.sockets)
		arrivals, err := p.port.Arrivals()
		require.NoError(t, err)
		require.Len(t, arrivals, next.arrivals)
		p.open(t, path, nil)
		require.NoError(t, from.Commit())
		require.NoError(t, p.control.Publish())
		<-running.control.Replaced()
		connect(next.name)
		running = p
	}
}

// TestSockets opens ports with several sockets.
func TestSockets(t *testing.T) {
	needSteering(t)
	for name, tt := range map[string]struct {
		cfg  PortConfig
		want int
	}{
		"one":                  {PortConfig{Sockets: 1}, 1},
		"one that is shared":   {PortConfig{Sockets: 1, Shared: true}, 1},
		"three":                {PortConfig{Sockets: 3}, 3},
		"one for each CPU":     {PortConfig{}, min(runtime.GOMAXPROCS(0), 8)},
		"the most":             {PortConfig{Sockets: MaxSockets}, MaxSockets},
		"the most, and shared": {PortConfig{Sockets: MaxSockets, Shared: true}, MaxSockets},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Logger = slog.New(slog.DiscardHandler)
			port := NewPort(tt.cfg)
			sockets, err := port.open(&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			require.NoError(t, err)
			require.Len(t, sockets, tt.want)
			for _, s := range sockets {
				require.Equal(t, tt.want > 1, s.Woken != nil)
				require.NoError(t, s.Conn.Close())
			}
			require.NoError(t, port.Close())
		})
	}
}

// TestAddressValidation has clients prove their addresses to a process with several sockets (Retry, RFC 9000 §8.1.2):
// the token, and the connection ID that comes with it, lead to the same socket.
func TestAddressValidation(t *testing.T) {
	needSteering(t)
	port := NewPort(quiet(4))
	p := listen(t, "careful", "127.0.0.1:0", port, func(cfg *transport.ListenConfig) { cfg.MaxUnvalidated = -1 })
	defer port.Close()
	for range 12 {
		require.Equal(t, "careful", ask(t, dial(t, p.listener.Addr())))
	}
	counts, err := port.group.Counts()
	require.NoError(t, err)
	require.Zero(t, counts["gone"]+counts["any"])
}

// TestNothingHasHappened has processes that fail to take over, each in its way. The running one goes on each time.
func TestNothingHasHappened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	one := first(t, path, nil, 1)
	addr := one.listener.Addr().(*net.UDPAddr)
	raw := func(message []byte, answer string) func(*testing.T) {
		return func(t *testing.T) {
			c, err := dialControl(path)
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Write(message)
			require.NoError(t, err)
			text, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Contains(t, string(text), answer)
		}
	}
	for name, f := range map[string]func(*testing.T){
		"it ends before the request": func(t *testing.T) {
			c, err := dialControl(path)
			require.NoError(t, err)
			require.NoError(t, c.Close())
		},
		"it ends before it listens": func(t *testing.T) {
			require.NoError(t, requested(t, path).Close())
		},
		"it ends before it is ready": func(t *testing.T) {
			from := requested(t, path)
			two := one.next(t, "second", from, 1)
			require.Equal(t, "first", ask(t, dial(t, addr)))
			require.NoError(t, two.listener.Close())
			require.NoError(t, from.Close())
			require.NoError(t, two.port.Close())
		},
		"it wants another address": func(t *testing.T) {
			from := requested(t, path)
			cfg := transport.ListenConfig{}
			from.Port(quiet(1)).Configure(&cfg)
			_, err := cfg.Sockets(&net.UDPAddr{IP: addr.IP, Port: addr.Port + 1})
			require.ErrorContains(t, err, "the running relay listens on "+addr.String())
		},
		"it has another version":  raw([]byte(`{"version":77}`), "by version 3 of the protocol, not 77"),
		"it sends no message":     raw([]byte("\xff"), ""),
		"it sends a long message": raw(bytes.Repeat([]byte{' '}, maxMessage+1), ""),
	} {
		t.Run(name, f)
	}
	require.Equal(t, "first", ask(t, dial(t, addr)))
	require.Empty(t, one.control.Replaced())
	require.NoError(t, requested(t, path).Close())
}

// TestLinks hands over how processes make links. An older version of the program neither sends nor reads that.
func TestLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	one := first(t, path, nil, 1)
	from := requested(t, path)
	require.Empty(t, from.Links(), "as from an older version")
	require.NoError(t, from.Close())

	target := server.LinkTarget{
		Address: netip.MustParseAddrPort("127.0.0.1:4711"), Certificate: bytes.Repeat([]byte{1}, 32),
		Secret: []byte(strings.Repeat("s", 26)),
	}
	targets := slices.Repeat([]server.LinkTarget{target}, 100)
	one.setLinks(targets, nil)
	from = requested(t, path)
	require.Equal(t, targets[:maxLinks], from.Links())
	require.NoError(t, from.Close())

	one.setLinks(nil, errors.New("no port is free"))
	from = requested(t, path)
	one.next(t, "second", from, 1)
	require.NoError(t, from.Commit(), "the takeover does not depend on links")

	b, err := json.Marshal(offer{Number: 7, Links: targets})
	require.NoError(t, err)
	var older struct {
		Number int `json:"number"`
	}
	require.NoError(t, json.Unmarshal(b, &older))
	require.Equal(t, 7, older.Number)
}

// TestRefusals asks relays that cannot be replaced.
func TestRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	_, err := Request(path)
	require.ErrorContains(t, err, "no relay that can be replaced has the control socket "+path)

	one := first(t, path, nil, 1)
	from, err := Request(path)
	require.NoError(t, err)
	_, err = Request(path)
	require.EqualError(t, err, "another process is taking over at this moment")
	_, err = Listen(path, Config{Port: NewPort(quiet(1)), Logger: slog.Default()})
	require.ErrorContains(t, err, "another relay has "+path)

	// At the end of the running process nothing is left to take over.
	require.NoError(t, one.control.Close())
	require.Error(t, from.Commit())
	require.NoError(t, from.Close())
	require.NoFileExists(t, path)

	bare := &process{port: NewPort(quiet(1))}
	bare.open(t, path, nil)
	require.NoError(t, bare.control.Publish())
	_, err = Request(path)
	require.EqualError(t, err, "the running relay cannot share its port: it does not listen yet")
}

// TestCloseRead receives what was sent before, and nothing more: the other process learns that it cannot send.
func TestCloseRead(t *testing.T) {
	l, err := ListenPrivate("unixpacket", filepath.Join(t.TempDir(), "control"))
	require.NoError(t, err)
	defer l.Close()
	ours, err := dialControl(l.Addr().String())
	require.NoError(t, err)
	defer ours.Close()
	theirs, err := l.AcceptUnix()
	require.NoError(t, err)
	defer theirs.Close()
	require.NoError(t, unixConn{theirs}.Send([]byte("{}")))
	require.NoError(t, ours.CloseRead())
	require.ErrorIs(t, unixConn{theirs}.Send([]byte("{}")), syscall.EPIPE)
	_, err = receive(unixConn{ours}, new(done))
	require.NoError(t, err)
	_, err = receive(unixConn{ours}, new(done))
	require.ErrorIs(t, err, io.EOF)
}

// TestControlSocketIsPrivate checks who may connect, and that a socket which a killed process has left is replaced, and
// no other file.
func TestControlSocketIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	stale, err := ListenPrivate("unixpacket", path)
	require.NoError(t, err)
	require.NoError(t, stale.Close())
	p := &process{port: NewPort(quiet(1))}
	p.open(t, path, nil)
	require.NoError(t, p.control.Publish())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, p.control.Close())
	require.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, []byte("settings"), 0o600))
	_, err = Listen(path, Config{Port: p.port, Logger: slog.Default()})
	require.ErrorContains(t, err, path+" is no socket: choose another path")
	_, err = Listen(filepath.Join(path, strings.Repeat("x", 200)), Config{Port: p.port, Logger: slog.Default()})
	require.ErrorContains(t, err, "control socket: ")
}

// TestAcceptFails has the control socket fail for a while, as when there are too many open files. It goes on then.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "control")
		p := &process{port: NewPort(quiet(1))}
		p.open(t, path, nil)
		require.NoError(t, p.control.listener.SetDeadline(time.Now()))
		require.NoError(t, p.control.Publish())
		synctest.Wait()
		require.NoError(t, p.control.listener.SetDeadline(time.Time{}))
		time.Sleep(acceptPause)
		_, err := Request(path)
		require.ErrorContains(t, err, "does not listen yet")
	})
}

// TestOtherUsersAreRefused connects as another user to a control socket that lets everybody in.
func TestOtherUsersAreRefused(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip("needs root")
	}
	dir, err := os.MkdirTemp("", "control-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "control")
	one := first(t, path, nil, 1)
	require.ErrorIs(t, asNobody(func() error { _, err := Request(path); return err }), os.ErrPermission)
	require.NoError(t, os.Chmod(path, 0o666))
	require.Error(t, asNobody(func() error { _, err := Request(path); return err }))
	require.Empty(t, one.control.Replaced())
	require.NoError(t, requested(t, path).Close())
}

// asNobody calls f as the user nobody, on a thread that ends with it.
func asNobody(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		const keep, nobody = ^uintptr(0), 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, nobody, keep); errno != 0 {
			result <- nil
			return
		}
		result <- f()
	}()
	return <-result
}
