package forwarding

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Mode is the kind of report that a monitor is asked for.
type Mode string

// The modes.
const (
	Every      Mode = "every RTT"
	Sampled    Mode = "sampled"    // one RTT of each flow direction in 100 ms
	Aggregated Mode = "aggregated" // histograms of all RTTs, every second
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{Every, Sampled, Aggregated} }

// Monitor is a program that measures RTTs.
type Monitor struct {
	Name, Version string
	Program       string
	// Arguments start it in the modes that it has. They end with the option that the device follows. It writes an RTT a
	// line to standard output, or JSON with count_rtt.
	Arguments map[Mode][]string
}

// None is the name of the runs without a monitor.
const None = "no monitor"

// likeEPPing are the arguments of ePPing, which sluice-rtt understands, too.
func likeEPPing() map[Mode][]string {
	return map[Mode][]string{
		Every:      {"-T", "-r", "0", "-F", "ppviz", "-i"},
		Sampled:    {"-T", "-r", "100", "-F", "ppviz", "-i"},
		Aggregated: {"-T", "-r", "0", "-a", "1", "-F", "jsonl", "-i"},
	}
}

// Sluice returns sluice-rtt.
func Sluice(program, version string) Monitor {
	return Monitor{Name: "sluice", Version: "sluice " + version, Program: program, Arguments: likeEPPing()}
}

// EPPing returns the monitor that xdp-project/bpf-examples has in the directory pping.
func EPPing(program string) Monitor {
	return Monitor{Name: "epping", Program: program, Arguments: likeEPPing()}
}

// PPing returns Pollere's monitor, which sees packets in user space.
func PPing(program string) Monitor {
	return Monitor{Name: "pping", Program: program, Arguments: map[Mode][]string{Every: {"-q", "-m", "-i"}}}
}

// find makes the path of the program absolute.
func (m *Monitor) find() error {
	path, err := exec.LookPath(m.Program)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return fmt.Errorf("monitor %s: %w", m.Name, err)
	}
	m.Program, err = filepath.Abs(path)
	return err
}
