package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"

	"context"

	"sluice/lab"
)

// sample is all counters at a moment.
type sample struct {
	at                     time.Time
	machine                cpuTimes
	relay, publisher, subs processTimes
	programs               map[ebpf.ProgramID]time.Duration // run time of all eBPF programs
	counters               map[string]float64               // of a relay that is Sluice
}

// sample reads the counters of a trial.
func (t *trial) sample() (s sample, err error) {
	s.at = time.Now()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, err
	}
	if s.machine, err = parseStat(string(stat)); err != nil {
		return s, err
	}
	s.relay, err = t.relay.times()
	errs := []error{err}
	s.publisher, err = t.publisher.times()
	errs = append(errs, err)
	for _, r := range t.receivers {
		times, err := r.times()
		errs = append(errs, err)
		s.subs = processTimes{s.subs.user + times.user, s.subs.system + times.system}
	}
	s.programs, err = programTimes()
	errs = append(errs, err)
	if t.system.Metrics != "" {
		s.counters, err = scrape(t.stage.lab.Relay, t.system.Metrics)
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

func (p *process) times() (processTimes, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return processTimes{}, p.failure(err)
	}
	return parseProcessStat(string(b))
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
