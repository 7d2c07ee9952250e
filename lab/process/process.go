// Package process starts programs, and tells whether they run and what they have said.
package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that was started.
type Process struct {
	Name string
	Cmd  *exec.Cmd // nil if it runs on another machine

	log  *lineLog
	done chan struct{}
	err  error // once done
}

func newProcess(name string, cmd *exec.Cmd) *Process {
	return &Process{Name: name, Cmd: cmd, log: newLineLog(), done: make(chan struct{})}
}

// Start starts a command by calling launch, which chooses where it runs. Its messages go to its log, and so does its
// output if the command has no other place for that.
func Start(name string, cmd *exec.Cmd, launch func(*exec.Cmd) error) (*Process, error) {
	p := newProcess(name, cmd)
	cmd.Stderr = p.log
	if cmd.Stdout == nil {
		cmd.Stdout = p.log
	}
	if err := launch(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		if err := cmd.Wait(); err != nil {
			p.err = p.Failure(err)
		}
	}()
	return p, nil
}

// Elsewhere returns a process on another machine, which ends when follow returns. follow writes to its log.
func Elsewhere(name string, follow func(log io.Writer) error) *Process {
	p := newProcess(name, nil)
	go func() {
		defer close(p.done)
		p.err = follow(p.log)
	}()
	return p
}

// PID returns the id of a process on this machine.
func (p *Process) PID() int { return p.Cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns why a process that has ended has failed; nil if it has not.
func (p *Process) Err() error { return p.err }

// Ended returns an error if the process has ended: why it has failed, or just that.
func (p *Process) Ended() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	return cmp.Or(p.err, p.Failure(errors.New("has ended")))
}

// Wait waits for the end of the process.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		select {
		case <-p.done: // this is why ctx is done
		default:
			return p.Failure(context.Cause(ctx))
		}
	}
	return p.err
}

// Await returns the first line of the log that contains a text.
func (p *Process) Await(ctx context.Context, text string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("did not print %q within %v", text, within))
	defer cancel()
	for {
		line, changed := p.log.find(text)
		if line != "" {
			return line, nil
		}
		select {
		case <-changed:
		case <-p.done:
			return "", cmp.Or(p.err, p.Failure(fmt.Errorf("ended before it printed %q", text)))
		case <-ctx.Done():
			return "", p.Failure(context.Cause(ctx))
		}
	}
}

// End asks the process to end.
func (p *Process) End() error { return p.Cmd.Process.Signal(syscall.SIGTERM) }

// Stop asks the process to end, and kills it if it does not.
func (p *Process) Stop(grace time.Duration) {
	_ = p.End() // fails only if it has ended
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.Cmd.Process.Kill()
		<-p.done
	}
}

// Failure adds the name and the last messages of the process to an error.
func (p *Process) Failure(err error) error {
	if log := p.log.tail(); log != "" {
		return fmt.Errorf("%s: %w\n%s", p.Name, err, log)
	}
	return fmt.Errorf("%s: %w", p.Name, err)
}

// lineLog keeps the last lines that are written to it.
type lineLog struct {
	mu      sync.Mutex
	partial []byte
	lines   []string
	changed chan struct{} // closed with every line
}

const (
	keptLines  = 30
	shownLines = 10
)

func newLineLog() *lineLog { return &lineLog{changed: make(chan struct{})} }

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, b...)
	for {
		line, rest, ok := bytes.Cut(l.partial, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.lines = append(l.lines, string(line))
		l.lines = l.lines[max(0, len(l.lines)-keptLines):]
		l.partial = bytes.Clone(rest)
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// find returns a line that contains a text, and a channel that is closed when there are more lines.
func (l *lineLog) find(text string) (line string, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.lines, func(line string) bool { return strings.Contains(line, text) }); i >= 0 {
		line = l.lines[i]
	}
	return line, l.changed
}

// tail returns the last lines, each indented.
func (l *lineLog) tail() (text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines[max(0, len(l.lines)-shownLines):] {
		text += "\n  " + line
	}
	return strings.TrimPrefix(text, "\n")
}
