package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/internal/cli"
)

// process is a running sluice.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *lineLog
	done chan struct{}
	err  error // once done
}

// startProcess starts sluice with arguments. The function start chooses where it runs. Its messages go to the log, and
// so does its output if out is nil. When ctx is done, the process receives SIGTERM and, if it does not end, SIGKILL.
func startProcess(ctx context.Context, name string, out io.Writer, start func(*exec.Cmd) error,
	args ...string) (*process, error) {
	sluice, err := cli.FindProgram("sluice")
	if err != nil {
		return nil, err
	}
	p := &process{name: name, log: newLineLog(), done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, sluice, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, p.log
	if out == nil {
		p.cmd.Stdout = p.log
	}
	p.cmd.Cancel = p.end
	p.cmd.WaitDelay = 5 * time.Second
	if err := start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		if err := p.cmd.Wait(); err != nil {
			p.err = p.failure(err)
		}
	}()
	return p, nil
}

// end sends SIGTERM to the process.
func (p *process) end() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// wait waits for the end of the process.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		select {
		case <-p.done: // this is why ctx is done
		default:
			return p.failure(context.Cause(ctx))
		}
	}
	return p.err
}

// await returns the first line that contains a text.
func (p *process) await(ctx context.Context, text string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoSetUp, fmt.Errorf("did not print %q within %v", text, demoSetUp))
	defer cancel()
	for {
		line, changed := p.log.find(text)
		if line != "" {
			return line, nil
		}
		select {
		case <-changed:
		case <-p.done:
			return "", cmp.Or(p.err, p.failure(fmt.Errorf("ended before it printed %q", text)))
		case <-ctx.Done():
			return "", p.failure(context.Cause(ctx))
		}
	}
}

// failure adds the process's last messages to an error.
func (p *process) failure(err error) error {
	return fmt.Errorf("%s: %w\n%s", p.name, err, p.log.tail())
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

func (l *lineLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return "  " + strings.Join(l.lines[max(0, len(l.lines)-shownLines):], "\n  ")
}
