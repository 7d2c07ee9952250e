package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"syscall"
	"time"

	"sluice/lab/bench/load"
	"sluice/lab/bench/procfs"
	proc "sluice/lab/process"
)

// process is a relay or a load generator.
type process struct {
	*proc.Process
	in     io.WriteCloser
	events chan load.Event // of a load generator; closed at the end of its output
}

// stopGrace is how long a process may take to end on request.
const stopGrace = 5 * time.Second

// start starts a program by calling launch. A load generator outputs events, a relay its log. The process is killed
// when the context is done, and when this process ends.
func start(
	ctx context.Context, launch func(*exec.Cmd) error, name string, generator bool, argv []string,
) (*process, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	p := new(process)
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	read, write := io.Pipe()
	if generator {
		cmd.Stdout, p.events = write, make(chan load.Event, 1)
	}
	if p.Process, err = proc.Start(name, cmd, launch); err != nil || !generator {
		return p, err
	}
	go func() {
		<-p.Done()
		write.Close()
	}()
	go func() {
		defer io.Copy(io.Discard, read)
		p.decodeEvents(read, io.Discard)
	}()
	return p, nil
}

// connect makes a process of a connection to a load generator on another machine.
func connect(name string, conn net.Conn) *process {
	p := &process{in: conn, events: make(chan load.Event, 1)}
	p.Process = proc.Elsewhere(name, func(log io.Writer) error {
		p.decodeEvents(conn, log)
		return nil
	})
	return p
}

// decodeEvents takes events. Why a load generator on another machine has failed goes to its log.
func (p *process) decodeEvents(from io.Reader, log io.Writer) {
	defer close(p.events)
	for decoder := json.NewDecoder(from); ; {
		var e load.Event
		if decoder.Decode(&e) != nil {
			return
		}
		if e.Failed != "" {
			fmt.Fprintln(log, e.Failed)
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
		<-p.Done()
		return e, p.Ended()
	case <-ctx.Done():
		return load.Event{}, p.Failure(context.Cause(ctx))
	}
}

// tell sends a command to a load generator.
func (p *process) tell(command string) error {
	if _, err := io.WriteString(p.in, command+"\n"); err != nil {
		return p.Failure(err)
	}
	return nil
}

// stop asks the process to end, and kills it if it does not. The broker ends one on another machine.
func (p *process) stop() {
	p.in.Close()
	if p.Cmd != nil {
		p.Stop(stopGrace)
	}
}

func (p *process) times() (procfs.ProcessTimes, error) {
	if p.Cmd == nil {
		return p.askTimes()
	}
	times, err := procfs.ReadTimes(p.PID())
	if err != nil {
		return times, p.Failure(err)
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
		err = p.Failure(errors.New("it did not report what it has used"))
	}
	if err != nil {
		return procfs.ProcessTimes{}, err
	}
	return *e.Used, nil
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

// awaitAll waits until load generators are set up.
func awaitAll(ctx context.Context, processes []*process) error {
	for _, p := range processes {
		if _, err := p.await(ctx, setUpLimit); err != nil {
			return err
		}
	}
	return nil
}
