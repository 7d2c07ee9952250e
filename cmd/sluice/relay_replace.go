package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/service"
	"sluice/relay"
	"sluice/server"
	"sluice/server/api"
	"sluice/server/handover"
)

// defaultReplaceDrain is long, because the sessions of clients that do not follow GOAWAY cost little while their media
// goes on, and end with the programmes that they watch.
const defaultReplaceDrain = time.Hour

func (f *relayFlags) registerReplacement(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.drain, "drain", 10*time.Second, "let sessions continue for this `duration` after SIGTERM")
	flags.StringVar(&f.drainURI, "drain-uri", "", "`URL` of another relay, to send peers to after SIGTERM")
	flags.StringVar(&f.control, "control", "",
		"Unix socket, by `path`, through which another process can replace this one (default: none)")
	flags.BoolVar(&f.replace, "replace", false, "replace the running relay that has the --control socket")
	flags.BoolVar(&f.background, "background", false,
		"with --replace: return when the new process has taken over, and let it run in the background")
	flags.DurationVar(&f.replaceDrain, "replace-drain", defaultReplaceDrain,
		"let sessions continue for this `duration` after another process has replaced this one")
	flags.StringVar(&f.replaceGoaway, "replace-goaway", "named",
		"which peers this process asks to move (GOAWAY) when another one has replaced it: named (those that name "+
			"their implementation), all or none")
}

// maxControl is the length of the longest --control in bytes: the system bounds the paths of sockets, and a process has
// sockets beside its control socket, with its id and a suffix (elderSocket).
const maxControl = len(syscall.RawSockaddrUnix{}.Path) - len(".4194304.api\x00")

// checkControl returns an error if a path is too long for a control socket.
func checkControl(path string) error {
	if len(path) <= maxControl {
		return nil
	}
	const what = "at most %d bytes long: the system has no sockets with longer paths"
	return fmt.Errorf("--control: %q: must be "+what, path, maxControl)
}

// goawayTo says who gets GOAWAY, by the peer's MOQT_IMPLEMENTATION. Some clients end with an error when they get it.
// Those that are known for that do not name their implementation, as the draft wants (§10.3.1.5).
var goawayTo = map[string]func(implementation string) bool{
	"named": func(implementation string) bool { return implementation != "" },
	"all":   func(string) bool { return true },
	"none":  func(string) bool { return false },
}

// takeover is the place of this process among those that share its port. Without --control it has no control socket,
// and its methods do what a relay without others does.
type takeover struct {
	port        *handover.Port
	from        *handover.Takeover // nil: this process replaces none
	control     *handover.Control
	certificate *tls.Certificate // of --dev
}

// takeOver asks the running relay to be replaced, if that is wanted, and configures the server.
func (f *relayFlags) takeOver(cfg *server.Config) (t *takeover, err error) {
	t = new(takeover)
	port := handover.PortConfig{Sockets: f.sockets, Shared: f.control != "", Logger: slog.Default()}
	if f.replace {
		if t.from, err = handover.Request(f.control); err != nil {
			return nil, fmt.Errorf("--replace: %w", err)
		}
		t.port = t.from.Port(port)
	} else {
		t.port = handover.NewPort(port)
	}
	t.port.Configure(&cfg.Transport)
	cfg.Draining, cfg.Arrivals = t.port.Draining, t.port.Arrivals
	if t.certificate, err = f.devCertificate(t.from); err != nil {
		return nil, errors.Join(fmt.Errorf("--dev: %w", err), t.close())
	}
	cfg.Transport.Certificate = t.certificate
	return t, nil
}

// elders returns how this process reaches those that it has replaced, and that still have sessions.
func (t *takeover) elders(control string) (all []api.Elder) {
	processes, err := t.port.Draining()
	if err != nil {
		slog.Warn("sessions of processes that were replaced cannot be ended", "err", err)
	}
	for _, p := range processes {
		all = append(all, api.Elder{PID: p.PID, Socket: elderSocket(control, p.PID)})
	}
	return all
}

// elderSocket returns where a process that was replaced has its API.
func elderSocket(control string, pid int) string { return fmt.Sprintf("%s.%d.api", control, pid) }

// obeySuccessors lets the processes that have replaced this one, which have the same user, list and end its sessions.
// It ends with the function that it returns.
func obeySuccessors(control string, s *server.Server) (end func()) {
	path := elderSocket(control, os.Getpid())
	_ = os.Remove(path) // of a process that had the id before, and has crashed
	l, err := handover.ListenPrivate("unix", path)
	if err != nil {
		slog.Warn("no operator can end sessions of this process", "err", err)
		return func() {}
	}
	none := func() []api.Elder { return nil }
	h := &http.Server{
		Handler:     api.New(relay.OperatorOf(s.Relay()), none, func() {}, slog.Default()),
		ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
	}
	go func() { _ = h.Serve(l) }()
	return func() { _ = h.Close() }
}

// tellInterval is how often a process that drains tells how many sessions it still has.
const tellInterval = time.Second

// tellSessions tells the processes that have replaced this one how many sessions it still has, until the context is
// done.
func (t *takeover) tellSessions(ctx context.Context, sessions func() int) {
	tick := time.NewTicker(tellInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := t.port.Tell(sessions()); err != nil && ctx.Err() == nil {
			slog.Warn("the status of the other process does not show this one", "err", err)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// listenAdmin opens the admin address, or takes the listener of the process that this one replaces. It returns nil if
// there is no admin address.
func (t *takeover) listenAdmin(addr string) (net.Listener, error) {
	switch {
	case addr == "":
		return nil, nil
	case t.from != nil:
		return t.from.ListenTCP(addr)
	}
	return net.Listen("tcp", addr)
}

// begin takes over from the process that this one replaces, if there is one, and opens the control socket. Until it
// returns nil, this process gets no session.
func (t *takeover) begin(path string, s *server.Server, admin net.Listener) (err error) {
	if path == "" {
		return nil
	}
	l, _ := admin.(*net.TCPListener)
	t.control, err = handover.Listen(path, handover.Config{
		Port: t.port, Replaces: t.from != nil, Admin: l, Certificate: t.certificate, Links: s.LinkTargets,
		Logger:   slog.Default(),
		Replaced: func(pid int) { service.NotifySystemd(fmt.Sprintf("MAINPID=%d", pid)) },
	})
	if err != nil {
		return fmt.Errorf("--control: %w", err)
	}
	parent := fileOfParent()
	if t.from != nil {
		if err = awaitParent(parent); err == nil {
			s.LinkTo(context.Background(), t.from.Links())
			err = t.from.Commit()
		}
		if err != nil {
			return fmt.Errorf("--replace: %w", err)
		}
	}
	if err := t.control.Publish(); err != nil {
		if t.from == nil {
			return fmt.Errorf("--control: %w", err)
		}
		slog.Error("no process can replace this one", "err", err) // it is too late to go back
	}
	tellParent(parent)
	return nil
}

// replacedError is why a relay stops: another process has taken over.
type replacedError struct{ pid int }

func (e *replacedError) Error() string { return fmt.Sprintf("replaced by process %d", e.pid) }

// untilReplaced returns a context that is done when another process has taken over, with a replacedError as its cause,
// or when ctx is done.
func (t *takeover) untilReplaced(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if t.control == nil {
		return ctx, cancel
	}
	go func() {
		select {
		case pid := <-t.control.Replaced():
			cancel(&replacedError{pid})
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// metrics returns the metrics of the port.
func (t *takeover) metrics() []prometheus.Collector {
	return []prometheus.Collector{t.port}
}

func (t *takeover) close() error {
	var errs []error
	if t.control != nil {
		errs = append(errs, t.control.Close())
	}
	if t.from != nil {
		errs = append(errs, t.from.Close())
	}
	return errors.Join(append(errs, t.port.Close())...)
}

// parentVariable is the environment variable with the file descriptor by which a process in the background talks with
// the process that the user started: see runInBackground.
const parentVariable = "SLUICE_PARENT_FD"

// runInBackground starts this command again without --background, and returns when that process has taken over or has
// ended.
//
// A process between the two starts it and ends at once, so that it becomes a child of init before it takes over:
// systemd supervises only its own children.
func runInBackground(env *cli.Environment) error {
	if parent := fileOfParent(); parent != nil {
		isFlag := func(arg string) bool { return arg == "--background" || arg == "--background=true" }
		cmd, err := startAgain(env, slices.DeleteFunc(slices.Clone(env.Args), isFlag), parent)
		if err != nil {
			return err
		}
		return cmd.Process.Release()
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close()
	between, err := startAgain(env, env.Args, theirs)
	if err != nil {
		return err
	}
	if err := between.Wait(); err != nil {
		return fmt.Errorf("start the new process: %w", err)
	}
	_, err = ours.Write([]byte{1}) // fails if the new process has ended
	if n, _ := ours.Read(make([]byte, 1)); n == 0 {
		return errors.Join(errors.New("the new process has not taken over"), err)
	}
	return nil
}

// startAgain starts this program with other arguments, and hands a file to it.
func startAgain(env *cli.Environment, args []string, file *os.File) (*exec.Cmd, error) {
	defer file.Close()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdout, cmd.Stderr = env.Stdout, env.Stderr // files: they outlast this process
	cmd.ExtraFiles = []*os.File{file}
	cmd.Env = append(os.Environ(), parentVariable+"=3") // ExtraFiles begin at 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
}

// socketPair returns two files that are connected.
func socketPair() (a, b *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fds[0]), "parent"), os.NewFile(uintptr(fds[1]), "child"), nil
}

// fileOfParent returns the file that leads to the process that the user started, or nil if that is this process.
func fileOfParent() *os.File {
	fd, err := strconv.Atoi(os.Getenv(parentVariable))
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), parentVariable)
}

// awaitParent waits until this process may take over, if it runs in the background.
func awaitParent(parent *os.File) error {
	if parent == nil {
		return nil
	}
	if _, err := parent.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the process that started this one has ended: %w", err)
	}
	return nil
}

// tellParent tells the process that started this one that this one has taken over.
func tellParent(parent *os.File) {
	if parent == nil {
		return
	}
	_, err := parent.Write([]byte{1})
	if err := errors.Join(err, parent.Close(), os.Unsetenv(parentVariable)); err != nil {
		slog.Warn("cannot tell the process that started this one", "err", err)
	}
}
