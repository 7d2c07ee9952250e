package bench

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// userHZ is the unit of times in /proc: 100 on every architecture that the kernel has told user space about.
const userHZ = 100

func ticks(n uint64) time.Duration { return time.Duration(n) * (time.Second / userHZ) }

// cpuTimes is what all processors have done since the system was booted (proc_stat(5)). Idle time is exact; what the rest was spent on is
// sampled at timer ticks, so that busy time is best taken as what is left of real time.
type cpuTimes struct{ idle, softirq, steal time.Duration }

func (t cpuTimes) minus(u cpuTimes) cpuTimes {
	return cpuTimes{t.idle - u.idle, t.softirq - u.softirq, t.steal - u.steal}
}

// busy is the time that all cores together were busy, of a period in which they did t.
func (t cpuTimes) busy(period time.Duration, cores int) time.Duration {
	return max(0, time.Duration(cores)*period-t.idle-t.steal)
}

// parseStat parses /proc/stat.
func parseStat(text string) (cpuTimes, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return cpuTimes{}, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var t [8]time.Duration // user nice system idle iowait irq softirq steal
	for i := range t {
		n, err := strconv.ParseUint(fields[i+1], 10, 64)
		if err != nil {
			return cpuTimes{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t[i] = ticks(n)
	}
	return cpuTimes{idle: t[3] + t[4], softirq: t[6], steal: t[7]}, nil
}

// processTimes is the CPU time of a process. It includes that of softirqs which interrupted it, unless the kernel accounts for those
// apart (CONFIG_IRQ_TIME_ACCOUNTING).
type processTimes struct{ user, system time.Duration }

func (t processTimes) minus(u processTimes) processTimes {
	return processTimes{t.user - u.user, t.system - u.system}
}

func (t processTimes) plus(u processTimes) processTimes {
	return processTimes{t.user + u.user, t.system + u.system}
}

func (t processTimes) total() time.Duration { return t.user + t.system }

// processState is what /proc/PID/stat says of a process.
type processState struct {
	parent   int
	own      processTimes
	children time.Duration // CPU time of descendants that have ended and were waited for
	kernel   bool          // it is a thread of the kernel
}

// parseProcessStat parses /proc/PID/stat. Threads of the kernel are known by having no memory.
func parseProcessStat(text string) (p processState, err error) {
	_, rest, ok := cutLast(text, ")") // the name may have anything in it
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
	p.own, p.children, p.kernel = processTimes{t[0], t[1]}, t[2]+t[3], fields[20] == "0"
	return p, nil
}

// processesBetween returns the CPU time that processes used between two looks at all of them. The time of one that has ended is found
// again at whoever waited for it, its parent or what took the place of that, together with what it had used before the first look.
func processesBetween(a, b map[int]processState) time.Duration {
	var own, ended time.Duration
	for pid, p := range b {
		own += p.own.total() - a[pid].own.total()
		ended += p.children - a[pid].children
	}
	for pid, p := range a {
		if _, alive := b[pid]; !alive {
			ended -= p.own.total() + p.children
		}
	}
	return own + max(0, ended) // less than nothing: of some that have ended, nobody wanted to know
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// colonFields parses lines such as "VmRSS:	  123 kB", of /proc/PID/status, /proc/PID/fdinfo, /proc/meminfo and /proc/cpuinfo. Of
// fields that are repeated it keeps the first.
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

// kilobytes returns the bytes that a value such as "123 kB" means.
func kilobytes(value string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(value, " kB"), 10, 64)
	return n << 10, err
}

// processMemory is the memory of a process in bytes.
type processMemory struct{ resident, peak uint64 }

// parseStatus parses /proc/PID/status.
func parseStatus(text string) (processMemory, error) {
	fields := colonFields(text)
	resident, err1 := kilobytes(fields["VmRSS"])
	peak, err2 := kilobytes(fields["VmHWM"])
	if err1 != nil || err2 != nil {
		return processMemory{}, fmt.Errorf("/proc/PID/status has VmRSS %q and VmHWM %q", fields["VmRSS"], fields["VmHWM"])
	}
	return processMemory{resident, peak}, nil
}

// activity is what a process had to do: datagrams of its network, and how often one of its threads slept and was woken.
type activity struct {
	received, sent uint64
	wakeups        int64 // they are forgotten when a thread ends
}

func (a activity) minus(b activity) activity {
	return activity{a.received - b.received, a.sent - b.sent, a.wakeups - b.wakeups}
}

// parseDatagrams returns the datagrams that /proc/PID/net/snmp6 counts. The lab speaks IPv6.
func parseDatagrams(text string) (a activity, err error) {
	counters := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		counters[name] = strings.TrimSpace(value)
	}
	received, err1 := strconv.ParseUint(counters["Udp6InDatagrams"], 10, 64)
	sent, err2 := strconv.ParseUint(counters["Udp6OutDatagrams"], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return activity{}, fmt.Errorf("/proc/PID/net/snmp6: %w", err)
	}
	return activity{received: received, sent: sent}, nil
}

// parseMapInfo parses /proc/PID/fdinfo/FD of a BPF map: its id and what it occupies in bytes. ok is false for all other descriptors.
func parseMapInfo(text string) (id string, memory uint64, ok bool) {
	fields := colonFields(text)
	memory, err := strconv.ParseUint(fields["memlock"], 10, 64)
	id = fields["map_id"]
	return id, memory, id != "" && err == nil
}

// parsePrometheus returns the metrics without labels of the text format of Prometheus.
func parsePrometheus(text string) map[string]float64 {
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
