package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ReadCPU returns the times of all processors together since boot.
func ReadCPU() (CPUTimes, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPUTimes{}, err
	}
	return parseStat(string(b))
}

// ReadTimes returns the CPU time of a process. User is rounded down to ticks; the sum is exact.
func ReadTimes(pid int) (ProcessTimes, error) {
	b, err := os.ReadFile(filepath.Join(directory(pid), "stat"))
	if err != nil {
		return ProcessTimes{}, err
	}
	state, err := parseProcessStat(string(b))
	if err != nil {
		return ProcessTimes{}, err
	}
	all, err := ReadClock(pid)
	return ProcessTimes{User: state.own.User, System: max(0, all-state.own.User)}, err
}

// ReadClock returns the CPU time of a process, exactly: /proc has it in ticks, which are too long to show CPU time over
// time.
func ReadClock(pid int) (time.Duration, error) {
	// clock_getcpuclockid(3): the id of the process's clock, as the C library makes it (MAKE_PROCESS_CPUCLOCK).
	const scheduler = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|scheduler, &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
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
	rollup, err := os.ReadFile(filepath.Join(directory(pid), "smaps_rollup"))
	if err != nil {
		return m, err
	}
	if m.Proportional, err = parseRollup(string(rollup)); err != nil {
		return m, err
	}
	seen := make(map[string]bool)
	return m, eachDescriptor(pid, func(info string) {
		if id, n, ok := parseMapInfo(info); ok && !seen[id] {
			seen[id] = true
			m.Maps += n
		}
	})
}

// ReadPrograms returns the ids of the eBPF programs that a process holds by a file descriptor, its own or a link's.
func ReadPrograms(pid int) (map[uint32]bool, error) {
	programs := make(map[uint32]bool)
	return programs, eachDescriptor(pid, func(info string) {
		if id, err := strconv.ParseUint(colonFields(info)["prog_id"], 10, 32); err == nil {
			programs[uint32(id)] = true
		}
	})
}

// eachDescriptor calls visit with /proc/PID/fdinfo of each file descriptor of a process.
func eachDescriptor(pid int, visit func(info string)) error {
	descriptors, err := filepath.Glob(filepath.Join(directory(pid), "fdinfo", "*"))
	for _, path := range descriptors {
		if info, err := os.ReadFile(path); err == nil { // otherwise it was closed
			visit(string(info))
		}
	}
	return err
}

func directory(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }
