package forwarding

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"sluice/lab/bench/procfs"
	"sluice/lab/process"
	"sluice/rtt/flood"
)

// startLimit is how long a monitor may take until it watches the device.
const startLimit = 2 * time.Minute

// monitor is a Monitor that runs. A nil monitor is none.
type monitor struct {
	*process.Process
	out *os.File
}

// start starts a monitor in the network namespace of this thread, and waits until it watches.
func start(ctx context.Context, m *Monitor, mode Mode) (_ *monitor, err error) {
	p := new(monitor)
	if p.out, err = os.CreateTemp("", "sluice-forwarding-"); err != nil {
		return nil, err
	}
	cmd := exec.Command(m.Program, slices.Concat(m.Arguments[mode], []string{flood.Inside})...)
	cmd.Dir, cmd.Stdout = filepath.Dir(m.Program), p.out // ePPing reads a file there
	if p.Process, err = process.Start(m.Name, cmd, (*exec.Cmd).Start); err != nil {
		p.removeOutput()
		return nil, err
	}
	limited, cancelLimit := context.WithTimeout(ctx, startLimit)
	defer cancelLimit()
	waiting, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	go func() {
		<-p.Done()
		cancel(p.Ended())
	}()
	if err := flood.AwaitMonitor(waiting, flood.Inside); err != nil {
		ended := p.Ended()
		p.kill()
		return nil, cmp.Or(ended, p.Failure(err))
	}
	return p, nil
}

// cpuTime returns the CPU time that the monitor has used.
func (p *monitor) cpuTime() (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	if err := p.Ended(); err != nil {
		return 0, err
	}
	return procfs.ReadClock(p.PID())
}

// without returns processes other than this program and the monitor.
func (p *monitor) without(all map[int]procfs.ProcessState) map[int]procfs.ProcessState {
	maps.DeleteFunc(all, func(pid int, _ procfs.ProcessState) bool {
		return pid == os.Getpid() || p != nil && pid == p.PID()
	})
	return all
}

// end stops the monitor, and returns how many RTTs it has reported.
func (p *monitor) end() (rtts int, err error) {
	if err := p.Cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	<-p.Done()
	state := p.Cmd.ProcessState
	if status := state.Sys().(syscall.WaitStatus); !state.Success() && status.Signal() != syscall.SIGINT {
		return 0, p.Ended()
	}
	// The process has moved the offset that both share.
	if _, err := p.out.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	return countRTTs(p.out)
}

// kill ends the monitor if it runs, and removes its output.
func (p *monitor) kill() {
	_ = p.Cmd.Process.Kill() // it may have ended
	<-p.Done()
	p.removeOutput()
}

func (p *monitor) removeOutput() {
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
