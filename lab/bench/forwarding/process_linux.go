package forwarding

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/lab/bench/procfs"
	"sluice/rtt/flood"
)

// startLimit is how long a monitor may take until it watches the device.
const startLimit = 2 * time.Minute

// process is a monitor that runs. A nil process is no monitor.
type process struct {
	cmd    *exec.Cmd
	out    *os.File
	errors bytes.Buffer  // complete when it has ended
	ended  chan struct{} // closed when it has ended
}

// start starts a monitor in the network namespace of this thread, and waits until it watches.
func start(ctx context.Context, m *Monitor, mode Mode) (_ *process, err error) {
	p := &process{ended: make(chan struct{})}
	if p.out, err = os.CreateTemp("", "sluice-forwarding-"); err != nil {
		return nil, err
	}
	p.cmd = exec.Command(m.Program, append(m.Arguments[mode][:len(m.Arguments[mode]):len(m.Arguments[mode])],
		flood.Inside)...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = filepath.Dir(m.Program), p.out, &p.errors // ePPing reads a file there
	if err := p.cmd.Start(); err != nil {
		p.removeOutput()
		return nil, err
	}
	limited, cancelLimit := context.WithTimeout(ctx, startLimit)
	defer cancelLimit()
	waiting, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	go func() {
		_ = p.cmd.Wait() // its ProcessState says more
		close(p.ended)
		cancel(p.failure())
	}()
	if err := flood.AwaitMonitor(waiting, flood.Inside); err != nil {
		p.kill()
		return nil, p.withErrors(err)
	}
	return p, nil
}

// failure says how the process has ended.
func (p *process) failure() error { return fmt.Errorf("the monitor has ended: %v", p.cmd.ProcessState) }

// withErrors adds the error output of a process that has ended.
func (p *process) withErrors(err error) error {
	return fmt.Errorf("%w; it writes: %s", err, strings.TrimSpace(p.errors.String()))
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// cpuTime returns the CPU time that the process has used.
func (p *process) cpuTime() (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	select {
	case <-p.ended:
		return 0, p.withErrors(p.failure())
	default:
		return procfs.ReadClock(p.pid())
	}
}

// without returns processes other than this program and the monitor.
func (p *process) without(all map[int]procfs.ProcessState) map[int]procfs.ProcessState {
	maps.DeleteFunc(all, func(pid int, _ procfs.ProcessState) bool {
		return pid == os.Getpid() || p != nil && pid == p.pid()
	})
	return all
}

// end stops the process, and returns how many RTTs it has reported.
func (p *process) end() (rtts int, err error) {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	<-p.ended
	state := p.cmd.ProcessState
	if status := state.Sys().(syscall.WaitStatus); !state.Success() && status.Signal() != syscall.SIGINT {
		return 0, p.withErrors(p.failure())
	}
	// The process has moved the offset that both share.
	if _, err := p.out.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	return countRTTs(p.out)
}

// kill ends the process if it runs, and removes its output.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	p.removeOutput()
}

func (p *process) removeOutput() {
	p.out.Close()
	os.Remove(p.out.Name())
}

var aggregatedRTTs = regexp.MustCompile(`"count_rtt":(\d+)`)

// maxLine is the longest line of a monitor.
const maxLine = 1 << 20

// countRTTs counts the RTTs in a monitor's output: one in each line, or as many as the intervals of JSON lines say.
// The output of a long run does not fit into memory.
func countRTTs(out io.Reader) (n int, err error) {
	lines := bufio.NewReaderSize(out, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case err == io.EOF:
			return n, nil // half a line follows the last one
		case err != nil:
			return n, fmt.Errorf("read what the monitor writes: %w", err)
		case line[0] != '{':
			n++
			continue
		}
		for _, m := range aggregatedRTTs.FindAllSubmatch(line, -1) {
			count, _ := strconv.Atoi(string(m[1])) // it consists of digits
			n += count
		}
	}
}
