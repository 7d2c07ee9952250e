package trial

import (
	"fmt"
	"time"

	"sluice/internal/bench/procfs"
)

// Usage is the CPU time and other resources that a period of a trial used.
type Usage struct {
	// Apart is whether publisher and subscribers have machines of their own. The rest then is about the relay's.
	Apart                         bool
	Period                        time.Duration
	Cores                         int
	Busy, Steal, Softirq          time.Duration
	Relay, Publisher, Subscribers procfs.ProcessTimes
	EBPF, Lab                     time.Duration   // run time of eBPF programs: the relay's, besides its process; others
	RelaySoftirq                  time.Duration   // softirqs in the time of the relay's process, in Relay
	Others                        time.Duration   // by processes that are not part of the trial
	Idle                          float64         // cores that were busy before media flowed, without Others
	Activity                      procfs.Activity // of the relay
	Packets                       int             // that left the relay with media
	KernelPackets, UserPackets    float64         // with media, that Sluice's kernel part and its process sent
	Sessions                      int             // of subscribers
	LateP99                       time.Duration   // how late the publisher was
	FrameInterval                 time.Duration
}

// Percent returns a time as a share of one core.
func (u *Usage) Percent(d time.Duration) float64 { return 100 * d.Seconds() / u.Period.Seconds() }

// RelayTotal returns the CPU time of the relay's process without softirqs, and that of its eBPF programs. In a lab, the
// softirqs carry packets through links to other hosts, which receive them.
func (u *Usage) RelayTotal() time.Duration { return max(0, u.Relay.Total()-u.RelaySoftirq) + u.EBPF }

// RelaySystem returns the CPU time of the relay's process in the kernel, without softirqs.
func (u *Usage) RelaySystem() time.Duration { return max(0, u.Relay.System-u.RelaySoftirq) }

// PublisherTotal returns the CPU time of the publisher.
func (u *Usage) PublisherTotal() time.Duration { return u.publisher(u.Publisher.Total(), u.EBPF) }

// publisher corrects the CPU time of the publisher. The kernel charges softirqs to the process that they interrupt. The
// relay's eBPF programs run when packets of the publisher arrive, so on one machine the publisher's time includes
// theirs, which is subtracted here.
func (u *Usage) publisher(total, ebpf time.Duration) time.Duration {
	if u.Apart {
		return total
	}
	return max(0, total-ebpf)
}

// PublisherIn returns the CPU time of the publisher in an interval.
func (u *Usage) PublisherIn(i Interval) time.Duration { return u.publisher(i.Publisher, i.EBPF) }

// SystemTotal returns the CPU time of the whole machine, less its use before media flowed and the use by others.
// ok is false if the use by others hides it: when a process ends, the time of its whole life appears at once in the
// account of the process that reaps it.
func (u *Usage) SystemTotal() (over time.Duration, ok bool) {
	over = u.Busy - u.Others - time.Duration(u.Idle*float64(u.Period))
	return over, over >= u.RelayTotal() && over <= u.Busy+u.Busy/10
}

const (
	// generatorLimit is the part of a core above which the publisher may limit what is measured.
	generatorLimit = .85
	// saturated is the part of the machine above which no CPU time is left.
	saturated = .97
)

// Bottleneck returns why the publisher decided the result instead of the relay; "" if it did not.
func (u *Usage) Bottleneck() string {
	if p := u.PublisherTotal(); p.Seconds() > generatorLimit*u.Period.Seconds() {
		return fmt.Sprintf("the publisher was the bottleneck: it used %.0f%% of a core", u.Percent(p))
	}
	if u.LateP99 > u.FrameInterval/2 {
		return fmt.Sprintf("the publisher was the bottleneck: with 1%% of its frames it was %v or more late",
			u.LateP99.Round(time.Millisecond))
	}
	return ""
}

// Exhausted returns which processes other than the relay used up the machine; "" if there are none.
func (u *Usage) Exhausted() string {
	relay := u.RelayTotal()
	generators := time.Duration(0) // on this machine
	if !u.Apart {
		generators = u.Publisher.Total() + u.Subscribers.Total() - u.EBPF
	}
	switch {
	case u.Busy.Seconds() < saturated*float64(u.Cores)*u.Period.Seconds():
		return ""
	case u.Others > max(relay, generators):
		return fmt.Sprintf("the machine was busy with other things, which used %.0f%% of a core", u.Percent(u.Others))
	case generators > relay:
		return fmt.Sprintf("the load generators were the bottleneck: "+
			"the machine was busy, and they used %.0f%% of a core, the relay %.0f%%", u.Percent(generators),
			u.Percent(relay))
	}
	return ""
}
