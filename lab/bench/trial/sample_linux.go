package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/clock"
	"sluice/lab/bench/load"
	"sluice/lab/bench/procfs"
	"sluice/lab/bench/softirq"
	"sluice/lab/bench/system"
)

// sample is the counters at the beginning or the end of a period.
type sample struct {
	moment
	machine   procfs.CPUTimes
	own       procfs.ProcessTimes // of hog and bystander
	activity  procfs.Activity     // of the relay
	delivered uint64              // frames
	processes map[int]procfs.ProcessState
	held      map[ebpf.ProgramID]bool // eBPF programs of the relays
}

// sample reads the counters.
func (t *Trial) sample() (s sample, err error) {
	var errs [6]error
	s.machine, errs[0] = procfs.ReadCPU()
	s.moment, errs[1] = t.moment()
	s.activity, errs[2] = procfs.ReadActivity(t.relays[0].PID())
	s.own, errs[3] = sumTimes(t.hog, t.bystander)
	s.processes, errs[4] = procfs.ReadProcesses()
	s.held, errs[5] = t.relayPrograms()
	if err = errors.Join(errs[:]...); err == nil {
		s.delivered, err = t.delivered()
	}
	return s, err
}

// moment reads the CPU time of the processes, and of all eBPF programs.
func (t *Trial) moment() (moment, error) {
	m := moment{at: load.Monotonic()}
	softirqs, err := t.softirq.Read()
	errs := []error{err}
	read := func(r softirq.Role, processes ...*process) Share {
		used, err := sumTimes(processes...)
		errs = append(errs, err)
		return Share{used, softirqs.Processes[r], softirqs.Devices[r]}
	}
	m.relay, m.publisher = read(softirq.Relay, t.relays...), read(softirq.Publisher, t.publisher)
	m.subscribers = read(softirq.Subscribers, t.subscribers...)
	m.programs, err = t.stage.programUses()
	return m, errors.Join(append(errs, err)...)
}

// timelineInterval is the time between two moments of a timeline.
const timelineInterval = 250 * time.Millisecond

// startTimeline begins to note moments. The function that it returns ends this. A process that has ended ends it too:
// the trial fails then anyway.
func (t *Trial) startTimeline() (stop func() []moment) {
	var line []moment
	end := make(chan struct{})
	var recording sync.WaitGroup
	recording.Go(func() {
		for range clock.Every(timelineInterval, end) {
			m, err := t.moment()
			if err != nil {
				return
			}
			line = append(line, m)
		}
	})
	return func() []moment {
		close(end)
		recording.Wait()
		return line
	}
}

// delivered returns the frames that have arrived at all subscribers so far.
func (t *Trial) delivered() (sum uint64, err error) {
	for _, p := range t.subscribers {
		e, err := p.ask(load.Count)
		if err == nil && e.Delivered == nil {
			err = p.Failure(errors.New("it did not report what it has got"))
		}
		if err != nil {
			return sum, err
		}
		sum += *e.Delivered
	}
	return sum, nil
}

// sumTimes returns the CPU time of processes that may be nil.
func sumTimes(processes ...*process) (sum procfs.ProcessTimes, err error) {
	for _, p := range processes {
		if p == nil {
			continue
		}
		times, err := p.times()
		if err != nil {
			return sum, err
		}
		sum = sum.Plus(times)
	}
	return sum, nil
}

// countTime is how long a load generator may take to report its objects or its CPU time.
const countTime = 10 * time.Second

// usage returns the difference of two samples.
func (t *Trial) usage(a, b sample) Usage {
	machine := b.machine.Minus(a.machine)
	u := between(a.moment, b.moment, b.held, t.recorders)
	u.Cores, u.FrameInterval = runtime.NumCPU(), t.Mock.WithDefaults().Interval()
	u.Steal, u.Busy = machine.Steal, machine.Busy(u.Period, u.Cores)
	u.Activity, u.Delivered, u.Apart = b.activity.Minus(a.activity), b.delivered-a.delivered, t.stage.Lab == nil
	ours := u.Relay.Process.Plus(b.own.Minus(a.own))
	if !u.Apart {
		ours = ours.Plus(u.Publisher.Process).Plus(u.Subscribers.Process)
	}
	u.Others = max(0, procfs.UsedBetween(a.processes, b.processes)-ours.Total())
	return u
}

// relayPrograms returns the eBPF programs of the relays. The others belong to the lab, to this process, which records
// packets and counts system calls, and to whatever else runs on the machine.
func (t *Trial) relayPrograms() (map[ebpf.ProgramID]bool, error) {
	programs := make(map[ebpf.ProgramID]bool)
	for _, r := range t.relays {
		held, err := procfs.ReadPrograms(r.PID())
		if err != nil {
			return nil, err
		}
		for id := range held {
			programs[ebpf.ProgramID(id)] = true
		}
	}
	return programs, nil
}

// ingressPrograms returns the programs that links attach to the ingress of devices. A classifier at the egress runs in
// the time of the sender: a process, or the program that a packet has come to. One without a link is run by a process.
// Relays attach theirs by links.
func ingressPrograms() (map[ebpf.ProgramID]bool, error) {
	for first := make(map[ebpf.ProgramID]bool); ; {
		err := addIngress(first)
		if !errors.Is(err, unix.EAGAIN) {
			return first, err
		}
		time.Sleep(time.Millisecond) // another process is making a link
	}
}

func addIngress(first map[ebpf.ProgramID]bool) error {
	var links link.Iterator
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err != nil {
			return err
		}
		if at := info.TCX(); at != nil && ebpf.AttachType(at.AttachType) == ebpf.AttachTCXIngress {
			first[info.Program] = true
		}
	}
	return links.Err()
}

// packetCounts are the packets with media that relays which are Sluice have sent.
type packetCounts struct{ kernel, user float64 }

// packetCounts reads the metrics of relays that are Sluice. This costs the relays CPU time, so it must happen outside
// of the measured period.
func (t *Trial) packetCounts() (sum packetCounts, err error) {
	if t.System.Metrics == "" {
		return sum, nil
	}
	for i := range t.Relays {
		values, err := scrape(t.stage.site, i, t.System.Metrics)
		if err != nil {
			return sum, err
		}
		if t.RTSP {
			kernel := values[system.KernelRTPPackets]
			sum.kernel, sum.user = sum.kernel+kernel, sum.user+values[system.RTPPackets]-kernel
			continue
		}
		sum.kernel, sum.user = sum.kernel+values[system.KernelPackets], sum.user+values[system.UserPackets]
	}
	return sum, nil
}

// scrape reads metrics from inside a relay's network.
func scrape(s site, relay int, address string) (map[string]float64, error) {
	b, err := get(context.Background(), s, relay, "http://"+address+"/metrics")
	return procfs.ParsePrometheus(string(b)), err
}

// answerTime is how long a relay may take to answer, a profile included.
const answerTime = 5 * time.Minute

// get reads a page from inside a relay's network.
func get(ctx context.Context, s site, relay int, url string) ([]byte, error) {
	client := http.Client{Timeout: answerTime, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return s.dial(relay, network, address)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(b))
	}
	return b, err
}
