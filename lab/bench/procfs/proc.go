package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// userHZ is the number of ticks in a second in /proc: 100 on every architecture.
const userHZ = 100

func ticks(n uint64) time.Duration { return time.Duration(n) * (time.Second / userHZ) }

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

// parseStat parses /proc/stat.
func parseStat(text string) (CPUTimes, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return CPUTimes{}, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var t [8]time.Duration // user nice system idle iowait irq softirq steal
	for i := range t {
		n, err := strconv.ParseUint(fields[i+1], 10, 64)
		if err != nil {
			return CPUTimes{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t[i] = ticks(n)
	}
	return CPUTimes{Idle: t[3] + t[4], Steal: t[7]}, nil
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

// ProcessState is the content of /proc/PID/stat.
type ProcessState struct {
	parent   int
	own      ProcessTimes
	children time.Duration // CPU time of descendants that have ended and that a parent has waited for
	kernel   bool          // it is a thread of the kernel
}

// parseProcessStat parses /proc/PID/stat. A thread of the kernel has no memory of its own.
func parseProcessStat(text string) (p ProcessState, err error) {
	_, rest, ok := cutLast(text, ")") // the name may hold any characters
	fields := strings.Fields(rest)
	if !ok || len(fields) < 21 {
		return p, fmt.Errorf("/proc/PID/stat is %q", text)
	}
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return p, fmt.Errorf("/proc/PID/stat: %w", err)
	}
	var t [4]time.Duration // utime stime cutime cstime
	for i := range t {
		n, err := strconv.ParseUint(fields[11+i], 10, 64)
		if err != nil {
			return p, fmt.Errorf("/proc/PID/stat: %w", err)
		}
		t[i] = ticks(n)
	}
	p.own, p.children, p.kernel = ProcessTimes{t[0], t[1]}, t[2]+t[3], fields[20] == "0"
	return p, nil
}

// UsedBetween returns the CPU time that processes used between two readings of all of them. The whole time of a process
// that has ended, also from before the first reading, is in the time of the process that waited for it, its parent or a
// reaper.
func UsedBetween(a, b map[int]ProcessState) time.Duration {
	var own, ended time.Duration
	for pid, p := range b {
		own += p.own.Total() - a[pid].own.Total()
		ended += p.children - a[pid].children
	}
	for pid, p := range a {
		if _, alive := b[pid]; !alive {
			ended -= p.own.Total() + p.children
		}
	}
	return own + max(0, ended) // it is negative if no process waited for some that have ended
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// colonFields parses lines such as "VmRSS:	  123 kB", of /proc/PID/status, /proc/PID/fdinfo, /proc/meminfo and
// /proc/cpuinfo. It keeps the first of fields with the same name.
func colonFields(text string) map[string]string {
	fields := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), ":")
		name = strings.TrimSpace(name)
		if _, known := fields[name]; ok && !known {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

// kilobytes parses a value such as "123 kB" and returns bytes.
func kilobytes(value string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(value, " kB"), 10, 64)
	return n << 10, err
}

// Memory is the memory of a process, bytes.
type Memory struct {
	Resident, Peak uint64
	// Proportional is Resident with a share of each page that other processes map, too (PSS).
	Proportional uint64
	Anonymous    uint64 // of Resident: not pages of files
	Maps         uint64 // memory of its BPF maps
}

// parseStatus parses /proc/PID/status.
func parseStatus(text string) (Memory, error) {
	fields := colonFields(text)
	var m Memory
	for name, value := range map[string]*uint64{"VmRSS": &m.Resident, "VmHWM": &m.Peak, "RssAnon": &m.Anonymous} {
		var err error
		if *value, err = kilobytes(fields[name]); err != nil {
			return Memory{}, fmt.Errorf("/proc/PID/status has %s %q", name, fields[name])
		}
	}
	return m, nil
}

// parseRollup returns the proportional memory that /proc/PID/smaps_rollup has.
func parseRollup(text string) (uint64, error) {
	n, err := kilobytes(colonFields(text)["Pss"])
	if err != nil {
		return 0, fmt.Errorf("/proc/PID/smaps_rollup: Pss: %w", err)
	}
	return n, nil
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

// parseDatagrams returns the datagrams that /proc/PID/net/snmp6 counts. The lab uses IPv6.
func parseDatagrams(text string) (a Activity, err error) {
	counters := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		counters[name] = strings.TrimSpace(value)
	}
	received, err1 := strconv.ParseUint(counters["Udp6InDatagrams"], 10, 64)
	sent, err2 := strconv.ParseUint(counters["Udp6OutDatagrams"], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return Activity{}, fmt.Errorf("/proc/PID/net/snmp6: %w", err)
	}
	return Activity{Received: received, Sent: sent}, nil
}

// parseMapInfo parses /proc/PID/fdinfo/FD of a BPF map and returns its id and the bytes that it occupies. ok is false
// for all other descriptors.
func parseMapInfo(text string) (id string, memory uint64, ok bool) {
	fields := colonFields(text)
	memory, err := strconv.ParseUint(fields["memlock"], 10, 64)
	id = fields["map_id"]
	return id, memory, id != "" && err == nil
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
