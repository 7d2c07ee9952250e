package procfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// tick is the unit of CPU times in /proc/PID/stat, on every architecture.
const tick = time.Second / 100

// ReadCPU returns the times of all processors together since boot.
func ReadCPU() (CPUTimes, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return CPUTimes{}, err
	}
	s, err := fs.Stat()
	all := s.CPUTotal
	return CPUTimes{Idle: seconds(all.Idle + all.Iowait), Steal: seconds(all.Steal)}, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// ReadTimes returns the CPU time of a process. User is rounded down to ticks; the sum is exact.
func ReadTimes(pid int) (t ProcessTimes, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return t, err
	}
	s, err := p.Stat()
	if err != nil {
		return t, err
	}
	all, err := ReadClock(pid)
	t.User = time.Duration(s.UTime) * tick
	t.System = max(0, all-t.User)
	return t, err
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
func ReadActivity(pid int) (a Activity, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return a, err
	}
	network, err := p.Snmp6() // the lab uses IPv6
	if err != nil {
		return a, err
	}
	if udp := network.Udp6; udp.InDatagrams != nil && udp.OutDatagrams != nil {
		a.Received, a.Sent = uint64(*udp.InDatagrams), uint64(*udp.OutDatagrams)
	}
	threads, err := procfs.AllThreads(pid)
	for _, t := range threads {
		if s, err := t.NewStatus(); err == nil { // otherwise the thread has ended
			a.Wakeups += int64(s.VoluntaryCtxtSwitches)
		}
	}
	return a, err
}

// ReadProcesses returns all processes by id, without threads of the kernel: these may work for a relay.
func ReadProcesses() (map[int]ProcessState, error) {
	found, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	all := make(map[int]ProcessState)
	for _, p := range found {
		s, err := p.Stat()
		kernel := s.VSize == 0 // a thread of the kernel has no memory of its own
		if err == nil && !kernel {
			all[p.PID] = ProcessState{
				own: time.Duration(s.UTime+s.STime) * tick, children: time.Duration(s.CUTime+s.CSTime) * tick,
			}
		}
	}
	return all, nil
}

// ReadMemory returns the memory of a process and of its BPF maps.
func ReadMemory(pid int) (m Memory, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return m, err
	}
	s, err1 := p.NewStatus()
	rollup, err2 := p.ProcSMapsRollup()
	if err := errors.Join(err1, err2); err != nil {
		return m, err
	}
	m = Memory{Resident: s.VmRSS, Peak: s.VmHWM, Anonymous: s.RssAnon, Proportional: rollup.Pss}
	seen := make(map[string]bool)
	return m, eachDescriptor(pid, func(d descriptor) {
		if id, n, ok := d.bpfMap(); ok && !seen[id] {
			seen[id] = true
			m.Maps += n
		}
	})
}

// ReadPrograms returns the ids of the eBPF programs that a process holds by a file descriptor, its own or a link's.
func ReadPrograms(pid int) (map[uint32]bool, error) {
	programs := make(map[uint32]bool)
	return programs, eachDescriptor(pid, func(d descriptor) {
		if id, err := strconv.ParseUint(d["prog_id"], 10, 32); err == nil {
			programs[uint32(id)] = true
		}
	})
}

// eachDescriptor calls visit for each file descriptor of a process.
func eachDescriptor(pid int, visit func(descriptor)) error {
	descriptors, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fdinfo", "*"))
	for _, path := range descriptors {
		if info, err := os.ReadFile(path); err == nil { // otherwise it was closed
			visit(parseDescriptor(string(info)))
		}
	}
	return err
}
