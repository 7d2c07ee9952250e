package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/lab/bench/load"
	"sluice/lab/bench/procfs"
)

// process is a relay or a load generator.
type process struct {
	name   string
	cmd    *exec.Cmd // nil if it runs on another machine
	in     io.WriteCloser
	events chan load.Event // of a load generator; closed at the end of its output
	log    tail
	done   chan struct{}
	err    error // set when done is closed
}

// stopGrace is how long a process may take to end on request.
const stopGrace = 5 * time.Second

// start starts a program by calling launch. A load generator outputs events, a relay its log. The process is killed
// when the context is done, and when this process ends.
func start(
	ctx context.Context, launch func(*exec.Cmd) error, name string, generator bool, argv []string,
) (*process, error) {
	p := &process{name: name, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.WaitDelay = time.Second
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	var out io.WriteCloser
	if generator {
		p.events = make(chan load.Event, 1)
		out = p.readEvents()
		p.cmd.Stdout = out
	}
	if err := launch(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s (%s): %w", name, filepath.Base(argv[0]), err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
		if out != nil {
			out.Close()
		}
	}()
	return p, nil
}

// connect makes a process of a connection to a load generator on another machine.
func connect(name string, conn net.Conn) *process {
	p := &process{name: name, in: conn, events: make(chan load.Event, 1), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.decodeEvents(conn)
	}()
	return p
}

func (p *process) readEvents() io.WriteCloser {
	read, write := io.Pipe()
	go func() {
		defer io.Copy(io.Discard, read)
		p.decodeEvents(read)
	}()
	return write
}

func (p *process) decodeEvents(from io.Reader) {
	defer close(p.events)
	for decoder := json.NewDecoder(from); ; {
		var e load.Event
		if decoder.Decode(&e) != nil {
			return
		}
		if e.Failed != "" {
			fmt.Fprintln(&p.log, e.Failed)
			continue
		}
		p.events <- e
	}
}

// await waits for the next event.
func (p *process) await(ctx context.Context, within time.Duration) (load.Event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within))
	defer cancel()
	select {
	case e, ok := <-p.events:
		if ok {
			return e, nil
		}
		<-p.done
		return e, p.failure(errors.Join(errors.New("has ended"), p.err))
	case <-ctx.Done():
		return load.Event{}, p.failure(context.Cause(ctx))
	}
}

// tell sends a command to a load generator.
func (p *process) tell(command string) error {
	if _, err := io.WriteString(p.in, command+"\n"); err != nil {
		return p.failure(err)
	}
	return nil
}

// stop asks the process to end, and kills it if it does not.
func (p *process) stop() {
	p.in.Close()
	if p.cmd == nil {
		return // the broker ends it
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// ended returns an error if the process has ended.
func (p *process) ended() error {
	select {
	case <-p.done:
		return p.failure(errors.Join(errors.New("has ended"), p.err))
	default:
		return nil
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// failure adds the name and the end of the log of the process to an error.
func (p *process) failure(err error) error {
	if log := p.log.String(); log != "" {
		return fmt.Errorf("%s: %w\n%s", p.name, err, log)
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// tail keeps the end of the text that is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

func (p *process) times() (procfs.ProcessTimes, error) {
	if p.cmd == nil {
		return p.askTimes()
	}
	times, err := procfs.ReadTimes(p.pid())
	if err != nil {
		return times, p.failure(err)
	}
	return times, nil
}

// ask sends a command to a load generator that it answers at once.
func (p *process) ask(command string) (load.Event, error) {
	if err := p.tell(command); err != nil {
		return load.Event{}, err
	}
	return p.await(context.Background(), countTime)
}

// askTimes asks a load generator on another machine for the CPU times of its process.
func (p *process) askTimes() (procfs.ProcessTimes, error) {
	e, err := p.ask(load.Used)
	if err == nil && e.Used == nil {
		err = p.failure(errors.New("it did not report what it has used"))
	}
	if err != nil {
		return procfs.ProcessTimes{}, err
	}
	return procfs.ProcessTimes{User: e.Used.User, System: e.Used.System}, nil
}

// clock returns the CPU time of the process, exactly.
func (p *process) clock() (time.Duration, error) {
	if p.cmd == nil {
		times, err := p.askTimes()
		return times.Total(), err
	}
	return procfs.ReadClock(p.pid())
}

// tellAll gives a command to several processes.
func tellAll(processes []*process, command string) error {
	for _, p := range processes {
		if err := p.tell(command); err != nil {
			return err
		}
	}
	return nil
}
