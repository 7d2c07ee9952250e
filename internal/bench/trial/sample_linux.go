package trial

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"

	"sluice/internal/bench/procfs"
	"sluice/internal/bench/system"
	"sluice/internal/lab"
)

// sample is the counters of CPU use at a moment.
type sample struct {
	at                                 time.Time
	machine                            procfs.CPUTimes
	relay, publisher, subscribers, hog procfs.ProcessTimes
	activity                           procfs.Activity // of the relay
	processes                          map[int]procfs.ProcessState
	programs                           map[ebpf.ProgramID]time.Duration // run time of all eBPF programs
}

// sample reads the counters.
func (t *Trial) sample() (s sample, err error) {
	s.at = time.Now()
	if s.machine, err = procfs.ReadCPU(); err != nil {
		return s, err
	}
	if s.relay, err = t.relay.times(); err != nil {
		return s, err
	}
	if s.activity, err = procfs.ReadActivity(t.relay.pid()); err != nil {
		return s, t.relay.failure(err)
	}
	if s.publisher, err = t.publisher.times(); err != nil {
		return s, err
	}
	if t.hog != nil {
		if s.hog, err = t.hog.times(); err != nil {
			return s, err
		}
	}
	for _, r := range t.subscribers {
		times, err := r.times()
		if err != nil {
			return s, err
		}
		s.subscribers = s.subscribers.Plus(times)
	}
	if s.processes, err = procfs.ReadProcesses(); err != nil {
		return s, err
	}
	s.programs, err = programTimes()
	return s, err
}

func (p *process) times() (procfs.ProcessTimes, error) {
	times, err := procfs.ReadTimes(p.pid())
	if err != nil {
		return times, p.failure(err)
	}
	return times, nil
}

// usage returns the difference of two samples.
func (t *Trial) usage(a, b sample) Usage {
	machine := b.machine.Minus(a.machine)
	u := Usage{
		Period: b.at.Sub(a.at), Cores: runtime.NumCPU(), FrameInterval: t.Mock.WithDefaults().Interval(),
		Steal: machine.Steal, Softirq: machine.Softirq,
		Relay: b.relay.Minus(a.relay), Publisher: b.publisher.Minus(a.publisher),
		Subscribers: b.subscribers.Minus(a.subscribers), Activity: b.activity.Minus(a.activity),
	}
	u.Busy = machine.Busy(u.Period, u.Cores)
	ours := u.Relay.Plus(u.Publisher).Plus(u.Subscribers).Plus(b.hog.Minus(a.hog))
	u.Others = max(0, procfs.UsedBetween(a.processes, b.processes)-ours.Total())
	for id, total := range b.programs {
		if _, other := t.before[id]; other {
			u.Lab += total - a.programs[id]
		} else {
			u.EBPF += total - a.programs[id]
		}
	}
	return u
}

// programTimes returns the run time of all eBPF programs, which the kernel counts while a Stage is open.
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
			continue // it was unloaded in the meantime
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

// packetCounts are the packets with media that a relay which is Sluice has sent.
type packetCounts struct{ kernel, user float64 }

// packetCounts reads the metrics of a relay that is Sluice. This costs the relay CPU time, so it must happen outside
// of the measured period.
func (t *Trial) packetCounts() (packetCounts, error) {
	if t.System.Metrics == "" {
		return packetCounts{}, nil
	}
	values, err := scrape(t.stage.Lab.Relay, t.System.Metrics)
	return packetCounts{values[system.KernelPackets], values[system.UserPackets]}, err
}

// scrapeTime is how long a relay may take to serve its metrics.
const scrapeTime = 5 * time.Second

// scrape reads metrics from inside a host.
func scrape(h *lab.Host, address string) (map[string]float64, error) {
	client := http.Client{Timeout: scrapeTime, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, address string) (conn net.Conn, err error) {
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
	return procfs.ParsePrometheus(string(b)), err
}
