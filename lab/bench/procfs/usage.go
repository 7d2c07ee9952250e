package procfs

import (
	"bufio"
	"strconv"
	"strings"
	"time"
)

// CPUTimes are times of all processors together since boot (proc_stat(5)). Idle time is exact. The kernel samples the
// use of the rest at timer ticks, so busy time is better computed as real time less idle time.
type CPUTimes struct{ Idle, Steal time.Duration }

// Minus returns t - u.
func (t CPUTimes) Minus(u CPUTimes) CPUTimes {
	return CPUTimes{t.Idle - u.Idle, t.Steal - u.Steal}
}

// Busy returns how long all cores together were busy in a period whose times are t.
func (t CPUTimes) Busy(period time.Duration, cores int) time.Duration {
	return max(0, time.Duration(cores)*period-t.Idle-t.Steal)
}

// ProcessTimes is the CPU time of a process. It includes the softirqs that interrupted the process, unless the kernel
// accounts for these separately (CONFIG_IRQ_TIME_ACCOUNTING).
type ProcessTimes struct{ User, System time.Duration }

// Minus returns t - u.
func (t ProcessTimes) Minus(u ProcessTimes) ProcessTimes {
	return ProcessTimes{t.User - u.User, t.System - u.System}
}

// Plus returns t + u.
func (t ProcessTimes) Plus(u ProcessTimes) ProcessTimes {
	return ProcessTimes{t.User + u.User, t.System + u.System}
}

// Total returns the time in user space and in the kernel.
func (t ProcessTimes) Total() time.Duration { return t.User + t.System }

// ProcessState is a reading of a process's accounts.
type ProcessState struct {
	own      time.Duration
	children time.Duration // CPU time of descendants that have ended and that a parent has waited for
}

// UsedBetween returns the CPU time that processes used between two readings of all of them. The whole time of a process
// that has ended, also from before the first reading, is in the time of the process that waited for it, its parent or a
// reaper.
func UsedBetween(a, b map[int]ProcessState) time.Duration {
	var own, ended time.Duration
	for pid, p := range b {
		own += p.own - a[pid].own
		ended += p.children - a[pid].children
	}
	for pid, p := range a {
		if _, alive := b[pid]; !alive {
			ended -= p.own + p.children
		}
	}
	return own + max(0, ended) // it is negative if no process waited for some that have ended
}

// Memory is the memory of a process, bytes.
type Memory struct {
	Resident, Peak uint64
	// Proportional is Resident with a share of each page that other processes map, too (PSS).
	Proportional uint64
	Anonymous    uint64 // of Resident: not pages of files
	Maps         uint64 // memory of its BPF maps
}

// Activity counts the datagrams of a process's network namespace, and how often its threads slept and woke up.
type Activity struct {
	Received, Sent uint64
	Wakeups        int64 // of threads that have not ended
}

// Minus returns a - b.
func (a Activity) Minus(b Activity) Activity {
	return Activity{a.Received - b.Received, a.Sent - b.Sent, a.Wakeups - b.Wakeups}
}

// descriptor is /proc/PID/fdinfo/FD of a BPF object: lines such as "memlock:	69632".
type descriptor map[string]string

func parseDescriptor(text string) descriptor {
	d := make(descriptor)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		d[name] = strings.TrimSpace(value)
	}
	return d
}

// bpfMap returns the id of a map and the bytes that it occupies. ok is false for other objects.
func (d descriptor) bpfMap() (id string, memory uint64, ok bool) {
	memory, err := strconv.ParseUint(d["memlock"], 10, 64)
	return d["map_id"], memory, d["map_id"] != "" && err == nil
}

// ParsePrometheus parses the text format of Prometheus and returns the metrics without labels.
func ParsePrometheus(text string) map[string]float64 {
	values := make(map[string]float64)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if ok && err == nil && !strings.ContainsAny(name, "#{") {
			values[name] = v
		}
	}
	return values
}
