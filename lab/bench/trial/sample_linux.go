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
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/lab/bench/load"
	"sluice/lab/bench/procfs"
	"sluice/lab/bench/softirq"
	"sluice/lab/bench/system"
)

// sample is the counters of CPU use at a moment.
type sample struct {
	at                                 time.Time
	machine                            procfs.CPUTimes
	relay, publisher, subscribers, own procfs.ProcessTimes // relay: all of a chain; own: of hog and bystander
	softirq                            softirq.Times
	activity                           procfs.Activity // of the relay
	delivered                          uint64          // frames
	processes                          map[int]procfs.ProcessState
	programs                           map[ebpf.ProgramID]ProgramUse // all eBPF programs
	held                               map[ebpf.ProgramID]bool       // held by the relays
}

// sample reads the counters.
func (t *Trial) sample() (s sample, err error) {
	var errs [10]error
	s.at = time.Now()
	s.machine, errs[0] = procfs.ReadCPU()
	s.relay, errs[1] = sumTimes(t.relays()...)
	s.softirq, errs[2] = t.softirq.Read()
	s.activity, errs[3] = procfs.ReadActivity(t.relay.PID())
	s.publisher, errs[4] = sumTimes(t.publisher)
	s.subscribers, errs[5] = sumTimes(t.subscribers...)
	s.own, errs[6] = sumTimes(t.hog, t.bystander)
	s.processes, errs[7] = procfs.ReadProcesses()
	s.programs, errs[8] = t.stage.programUses()
	s.held, errs[9] = t.relayPrograms()
	if err = errors.Join(errs[:]...); err == nil {
		s.delivered, err = t.delivered()
	}
	return s, err
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
	u := Usage{
		Period: b.at.Sub(a.at), Cores: runtime.NumCPU(), FrameInterval: t.Mock.WithDefaults().Interval(),
		Steal: machine.Steal, Activity: b.activity.Minus(a.activity), Delivered: b.delivered - a.delivered,
	}
	u.Busy, u.Apart = machine.Busy(u.Period, u.Cores), t.stage.Lab == nil
	softirqs := b.softirq.Minus(a.softirq)
	share := func(before, after procfs.ProcessTimes, r softirq.Role) Share {
		return Share{after.Minus(before), softirqs.Processes[r], softirqs.Devices[r]}
	}
	u.Relay = share(a.relay, b.relay, softirq.Relay)
	u.Publisher = share(a.publisher, b.publisher, softirq.Publisher)
	u.Subscribers = share(a.subscribers, b.subscribers, softirq.Subscribers)
	ours := u.Relay.Process.Plus(b.own.Minus(a.own))
	if !u.Apart {
		ours = ours.Plus(u.Publisher.Process).Plus(u.Subscribers.Process)
	}
	u.Others = max(0, procfs.UsedBetween(a.processes, b.processes)-ours.Total())
	u.addPrograms(a.programs, b.programs, b.held, t.recorders)
	return u
}

// relayPrograms returns the eBPF programs of the relays. The others belong to the lab, to this process, which records
// packets and counts system calls, and to whatever else runs on the machine.
func (t *Trial) relayPrograms() (map[ebpf.ProgramID]bool, error) {
	programs := make(map[ebpf.ProgramID]bool)
	for _, r := range t.relays() {
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

// answerTime is how long a relay may take to answer, besides the time that it is asked to take.
const answerTime = time.Minute

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
