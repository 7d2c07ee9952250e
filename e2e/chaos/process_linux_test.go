package chaos

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"sluice/lab"
)

// process is a process in a host of the lab.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	log  []string // the last lines of its messages
	lost bool     // it has lost a session
	err  error    // once done
}

// keptLines is how many messages of a process a failure shows.
const keptLines = 200

// start starts a command in a host. The lines of its output go to the function output, the lines of its messages to the
// function message, unless that is nil; the last messages are kept.
func start(h *lab.Host, name string, cmd *exec.Cmd, output, message func(string)) (*process, error) {
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	// The lab ends with this process, so its processes must end, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	listen := func(line string) {
		p.keep(line)
		if message != nil {
			message(line)
		}
	}
	var reading sync.WaitGroup
	for _, pipe := range []struct {
		open func() (io.ReadCloser, error)
		line func(string)
	}{{cmd.StdoutPipe, output}, {cmd.StderrPipe, listen}} {
		r, err := pipe.open()
		if err != nil {
			return nil, err
		}
		reading.Go(func() { readLines(r, pipe.line) })
	}
	if err := h.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		reading.Wait()
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// readLines reads complete lines: a process that is killed may leave half of one.
func readLines(r io.Reader, line func(string)) {
	for b := bufio.NewReaderSize(r, 64<<10); ; {
		text, err := b.ReadString('\n')
		if err != nil {
			return
		}
		line(strings.TrimSuffix(text, "\n"))
	}
}

func (p *process) keep(line string) {
	if strings.Contains(line, `"level":"DEBUG"`) { // they are too many
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = p.lost || strings.Contains(line, "session lost")
	p.log = append(p.log, line)
	p.log = p.log[max(0, len(p.log)-keptLines):]
}

// said reports whether one of its latest messages has a text.
func (p *process) said(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.log, func(line string) bool { return strings.Contains(line, text) })
}

// failure describes an error of the process by its last messages.
func (p *process) failure(what any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%s: %v\n  %s", p.name, what, strings.Join(p.log, "\n  "))
}

// result waits for the end, and returns an error unless it is a good one.
func (p *process) result() error {
	<-p.done
	if p.err != nil {
		return p.failure(p.err)
	}
	return nil
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) } // fails only if it has ended
