package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cilium/ebpf"

	"sluice/internal/lab"
)

// sample is the clocks of CPU use at a moment.
type sample struct {
	at                     time.Time
	machine                cpuTimes
	relay, publisher, subs processTimes
	rival                  processTimes
	activity               activity                         // of the relay
	processes              map[int]processState             // but no threads of the kernel
	programs               map[ebpf.ProgramID]time.Duration // run time of all eBPF programs
}

// sample reads the clocks.
func (t *trial) sample() (s sample, err error) {
	s.at = time.Now()
	if s.machine, err = readStat(); err != nil {
		return s, err
	}
	if s.relay, err = t.relay.times(); err != nil {
		return s, err
	}
	if s.activity, err = t.relay.activity(); err != nil {
		return s, err
	}
	if s.publisher, err = t.publisher.times(); err != nil {
		return s, err
	}
	if t.rival != nil {
		if s.rival, err = t.rival.times(); err != nil {
			return s, err
		}
	}
	for _, r := range t.receivers {
		times, err := r.times()
		if err != nil {
			return s, err
		}
		s.subs = s.subs.plus(times)
	}
	if s.processes, err = allProcesses(); err != nil {
		return s, err
	}
	s.programs, err = programTimes()
	return s, err
}

func readStat() (cpuTimes, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTimes{}, err
	}
	return parseStat(string(b))
}

func (p *process) times() (processTimes, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return processTimes{}, p.failure(err)
	}
	state, err := parseProcessStat(string(b))
	return state.own, err
}

// activity returns what the process has done so far; its threads are those that it still has.
func (p *process) activity() (activity, error) {
	dir := fmt.Sprintf("/proc/%d", p.cmd.Process.Pid)
	network, err := os.ReadFile(filepath.Join(dir, "net", "snmp6"))
	if err != nil {
		return activity{}, p.failure(err)
	}
	a, err := parseDatagrams(string(network))
	if err != nil {
		return a, err
	}
	threads, err := filepath.Glob(filepath.Join(dir, "task", "*", "status"))
	if err != nil {
		return a, err
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		n, err := strconv.ParseInt(colonFields(string(status))["voluntary_ctxt_switches"], 10, 64)
		if err != nil {
			return a, fmt.Errorf("%s: voluntary_ctxt_switches: %w", path, err)
		}
		a.wakeups += n
	}
	return a, nil
}

// allProcesses returns all processes, but no threads of the kernel: what those do may be for the relay.
func allProcesses() (map[int]processState, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := make(map[int]processState)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		p, err := parseProcessStat(string(b))
		if err != nil {
			return nil, err
		}
		if !p.kernel {
			all[pid] = p
		}
	}
	return all, nil
}

// memory returns the memory of the process and of its BPF maps, bytes.
func (p *process) memory() (m processMemory, maps uint64, err error) {
	dir := fmt.Sprintf("/proc/%d", p.cmd.Process.Pid)
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return m, 0, p.failure(err)
	}
	if m, err = parseStatus(string(status)); err != nil {
		return m, 0, err
	}
	descriptors, err := filepath.Glob(filepath.Join(dir, "fdinfo", "*"))
	if err != nil {
		return m, 0, err
	}
	seen := make(map[string]bool)
	for _, path := range descriptors {
		info, err := os.ReadFile(path)
		if err != nil {
			continue // closed meanwhile
		}
		if id, n, ok := parseMapInfo(string(info)); ok && !seen[id] {
			seen[id] = true
			maps += n
		}
	}
	return m, maps, nil
}

// programTimes returns the run time of all eBPF programs, which the kernel counts from stage's EnableStats on.
func programTimes() (map[ebpf.ProgramID]time.Duration, error) {
	times := make(map[ebpf.ProgramID]time.Duration)
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return times, nil
		}
		if err != nil {
			return nil, err
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue // unloaded meanwhile
		}
		if err != nil {
			return nil, err
		}
		stats, err := p.Stats()
		p.Close()
		if err != nil {
			return nil, err
		}
		times[id] = stats.Runtime
	}
}

// scrape reads the metrics of a relay inside its host.
func scrape(h *lab.Host, address string) (map[string]float64, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = h.Do(func() error {
				conn, err = net.Dial(network, address)
				return err
			})
			return conn, err
		},
	}}
	response, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return parsePrometheus(string(b)), err
}
