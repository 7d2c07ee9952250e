package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// ReadCPU returns the times of all processors together since boot.
func ReadCPU() (CPUTimes, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPUTimes{}, err
	}
	return parseStat(string(b))
}

// ReadTimes returns the CPU time of a process.
func ReadTimes(pid int) (ProcessTimes, error) {
	b, err := os.ReadFile(filepath.Join(directory(pid), "stat"))
	if err != nil {
		return ProcessTimes{}, err
	}
	state, err := parseProcessStat(string(b))
	return state.own, err
}

// ReadActivity returns the activity of a process so far, without threads that have ended.
func ReadActivity(pid int) (Activity, error) {
	network, err := os.ReadFile(filepath.Join(directory(pid), "net", "snmp6"))
	if err != nil {
		return Activity{}, err
	}
	a, err := parseDatagrams(string(network))
	if err != nil {
		return a, err
	}
	threads, err := filepath.Glob(filepath.Join(directory(pid), "task", "*", "status"))
	if err != nil {
		return a, err
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		n, err := strconv.ParseInt(colonFields(string(status))["voluntary_ctxt_switches"], 10, 64)
		if err != nil {
			return a, fmt.Errorf("%s: voluntary_ctxt_switches: %w", path, err)
		}
		a.Wakeups += n
	}
	return a, nil
}

// ReadProcesses returns all processes by id, without threads of the kernel: these may work for a relay.
func ReadProcesses() (map[int]ProcessState, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := make(map[int]ProcessState)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // the process has ended
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

// ReadMemory returns the memory of a process and of its BPF maps.
func ReadMemory(pid int) (Memory, error) {
	status, err := os.ReadFile(filepath.Join(directory(pid), "status"))
	if err != nil {
		return Memory{}, err
	}
	m, err := parseStatus(string(status))
	if err != nil {
		return m, err
	}
	descriptors, err := filepath.Glob(filepath.Join(directory(pid), "fdinfo", "*"))
	if err != nil {
		return m, err
	}
	seen := make(map[string]bool)
	for _, path := range descriptors {
		info, err := os.ReadFile(path)
		if err != nil {
			continue // the descriptor was closed
		}
		if id, n, ok := parseMapInfo(string(info)); ok && !seen[id] {
			seen[id] = true
			m.Maps += n
		}
	}
	return m, nil
}

func directory(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }
