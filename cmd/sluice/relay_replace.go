package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/handover"
	"sluice/transport"
)

// defaultReplaceDrain is long, because the sessions of clients that do not follow GOAWAY cost little while their media
// goes on, and end with the programmes that they watch.
const defaultReplaceDrain = time.Hour

func (f *relayFlags) registerReplacement(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.control, "control", "",
		"Unix socket, by `path`, through which another process can replace this one (default: control in "+
			"$RUNTIME_DIRECTORY, which systemd sets, or else none)")
	flags.BoolVar(&f.replace, "replace", false, "replace the running relay that has the --control socket")
	flags.BoolVar(&f.background, "background", false,
		"with --replace: return when the new process has taken over, and let it run in the background")
	flags.DurationVar(&f.replaceDrain, "replace-drain", defaultReplaceDrain,
		"let sessions continue for this `duration` after another process has replaced this one")
}

// defaultControl returns the path of the control socket in the first of the directories that systemd has made.
func defaultControl(runtimeDirectory string) string {
	if directories := filepath.SplitList(runtimeDirectory); len(directories) > 0 {
		return filepath.Join(directories[0], "control")
	}
	return ""
}

// takeover is the place of this process among those that share its port. Without --control it has no port and no
// control socket, and its methods do what a relay without others does.
type takeover struct {
	port    *handover.Port
	from    *handover.Takeover // nil: this process replaces none
	control *handover.Control
}

// takeOver asks the running relay to be replaced, if that is wanted, and configures the listener.
func (f *relayFlags) takeOver(cfg *transport.ListenConfig) (*takeover, error) {
	t := new(takeover)
	if f.control == "" {
		return t, nil
	}
	if !f.replace {
		t.port = handover.NewPort(slog.Default())
	} else {
		var err error
		if t.from, err = handover.Request(f.control); err != nil {
			return nil, fmt.Errorf("--replace: %w", err)
		}
		t.port = t.from.Port(slog.Default())
	}
	t.port.Configure(cfg)
	return t, nil
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
func (t *takeover) begin(path string, admin net.Listener) (err error) {
	if t.port == nil {
		return nil
	}
	l, _ := admin.(*net.TCPListener)
	if t.control, err = handover.Listen(path, t.port, l, slog.Default()); err != nil {
		return fmt.Errorf("--control: %w", err)
	}
	if t.from != nil {
		if err := t.from.Commit(); err != nil {
			return fmt.Errorf("--replace: %w", err)
		}
	}
	if err := t.control.Publish(); err != nil {
		if t.from == nil {
			return fmt.Errorf("--control: %w", err)
		}
		slog.Error("no process can replace this one", "err", err) // it is too late to go back
	}
	tellParent()
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

// metrics returns what the port counts.
func (t *takeover) metrics() []prometheus.Collector {
	if t.port == nil {
		return nil
	}
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
	if t.port != nil {
		errs = append(errs, t.port.Close())
	}
	return errors.Join(errs...)
}

// readyVariable is the environment variable with the file descriptor at which a process in the background says that it
// has taken over.
const readyVariable = "SLUICE_READY_FD"

// runInBackground starts this command again without --background, and returns when that process has taken over or has
// ended.
func runInBackground(env *cli.Environment) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	isFlag := func(arg string) bool { return arg == "--background" || arg == "--background=true" }
	cmd := exec.Command(program, slices.DeleteFunc(slices.Clone(env.Args), isFlag)...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdout, cmd.Stderr = env.Stdout, env.Stderr // files: they outlast this process
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", readyVariable, 3)) // ExtraFiles begin at 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		return err
	}
	if n, _ := r.Read(make([]byte, 1)); n == 1 {
		return cmd.Process.Release()
	}
	return fmt.Errorf("the new process has not taken over: %w", cmd.Wait())
}

// tellParent tells the process that started this one in the background, if one did, that this one has taken over.
func tellParent() {
	fd, err := strconv.Atoi(os.Getenv(readyVariable))
	if err != nil {
		return
	}
	w := os.NewFile(uintptr(fd), readyVariable)
	_, err = w.Write([]byte{1})
	if err := errors.Join(err, w.Close(), os.Unsetenv(readyVariable)); err != nil {
		slog.Warn("cannot tell the process that started this one", "err", err)
	}
}
