package trial

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"sluice/lab/bench/procfs"
)

// Share is the CPU time of a part of a trial.
type Share struct {
	Process procfs.ProcessTimes // of its processes, as the kernel charges it
	// Interrupted is how long softirqs ran in Process, whose packets they ever handled. Devices is how long softirqs
	// handled packets of the part's devices, whose process they ever interrupted. Neither is known of a part that has a
	// machine of its own.
	Interrupted, Devices time.Duration
}

// Total returns the CPU time of the processes, without softirqs that interrupted them, and of their devices' softirqs.
func (s Share) Total() time.Duration { return max(0, s.Process.Total()-s.Interrupted) + s.Devices }

// minus returns s - o.
func (s Share) minus(o Share) Share {
	return Share{s.Process.Minus(o.Process), s.Interrupted - o.Interrupted, s.Devices - o.Devices}
}

// ProgramUse is the run time of an eBPF program.
type ProgramUse struct {
	Name    string
	Runtime time.Duration
	Runs    uint64
	// Within reports whether the run time of another program contains the program's, or the time of a process that runs
	// it (BPF_PROG_RUN) or sends.
	Within bool
}

// moment is the CPU time that the parts of a trial, and all eBPF programs, have used up at a time.
type moment struct {
	at                            time.Duration // on the clock of captured packets
	relay, publisher, subscribers Share         // relay: all of a chain
	programs                      map[ebpf.ProgramID]ProgramUse
}

// Usage is the CPU time and other resources that a period of a trial used.
type Usage struct {
	Begin time.Duration // of the period, on the clock of captured packets
	// Apart is whether publisher and subscribers have machines of their own. The rest then is about the relay's.
	Apart                         bool
	Period                        time.Duration
	Cores                         int
	Busy, Steal                   time.Duration
	Relay, Publisher, Subscribers Share
	EBPF                          time.Duration   // run time of the relay's eBPF programs in softirqs of its devices
	Programs                      []ProgramUse    // the relay's programs that ran
	Recorder                      time.Duration   // run time of the lab's programs that record packets, in Relay
	Lab                           time.Duration   // run time of all eBPF programs that are not the relay's
	Others                        time.Duration   // by processes that are not part of the trial
	Idle                          float64         // cores that were busy before media flowed, without Others
	Activity                      procfs.Activity // of the relay
	Delivered                     uint64          // frames, at all subscribers
	Packets                       int             // that left the relay with media
	KernelPackets, UserPackets    float64         // with media, that Sluice's kernel part and its process sent
	Sessions                      int             // of subscribers
	LateP99                       time.Duration   // how late the publisher was
	FrameInterval                 time.Duration
}

// Percent returns a time as a share of one core.
func (u *Usage) Percent(d time.Duration) float64 { return 100 * d.Seconds() / u.Period.Seconds() }

// PerFrame returns a time for each delivered frame, in µs.
func (u *Usage) PerFrame(d time.Duration) float64 {
	return d.Seconds() * 1e6 / float64(max(u.Delivered, 1))
}

// PerPacket returns a time for each packet with media that left the relay, in µs.
func (u *Usage) PerPacket(d time.Duration) float64 {
	return d.Seconds() * 1e6 / float64(max(u.Packets, 1))
}

// RelayTotal returns the CPU time of the relay: its process, its eBPF programs and the softirqs of its devices, without
// the time of the lab's recorder there.
func (u *Usage) RelayTotal() time.Duration { return max(0, u.Relay.Total()-u.Recorder) }

// RelaySystem returns the part of RelayTotal in the kernel, without eBPF programs.
func (u *Usage) RelaySystem() time.Duration {
	return max(0, u.RelayTotal()-u.Relay.Process.User-u.EBPF)
}

// between returns the CPU time that was used between two moments. The relay holds the programs held, and the recorders
// run in its time.
func between(a, b moment, held map[ebpf.ProgramID]bool, recorders []ebpf.ProgramID) Usage {
	u := Usage{
		Begin: a.at, Period: b.at - a.at, Relay: b.relay.minus(a.relay), Publisher: b.publisher.minus(a.publisher),
		Subscribers: b.subscribers.minus(a.subscribers),
	}
	for _, id := range slices.Sorted(maps.Keys(b.programs)) {
		use, before := b.programs[id], a.programs[id]
		use.Runtime, use.Runs = use.Runtime-before.Runtime, use.Runs-before.Runs
		switch {
		case !held[id]:
			u.Lab += use.Runtime
		case !use.Within:
			u.EBPF += use.Runtime
		}
		if held[id] && use.Runs > 0 {
			u.Programs = append(u.Programs, use)
		}
		if slices.Contains(recorders, id) {
			u.Recorder += use.Runtime
		}
	}
	return u
}

// SystemTotal returns the CPU time of the whole machine, less its use before media flowed, the use by others, and the
// lab's eBPF programs. ok is false if the use by others hides it: when a process ends, the time of its whole life
// appears at once in the account of the process that reaps it.
func (u *Usage) SystemTotal() (over time.Duration, ok bool) {
	over = u.Busy - u.Others - u.Lab - time.Duration(u.Idle*float64(u.Period))
	known := u.RelayTotal()
	if !u.Apart {
		known += u.Publisher.Total() + u.Subscribers.Total()
	}
	return over, over >= known-known/10 && over <= u.Busy+u.Busy/10
}

const (
	// generatorLimit is the part of a core above which the publisher may limit the result.
	generatorLimit = .85
	// saturated is the part of the machine above which no CPU time is left.
	saturated = .97
)

// Bottleneck returns why the publisher decided the result instead of the relay; "" if it did not.
func (u *Usage) Bottleneck() string {
	if p := u.Publisher.Total(); p.Seconds() > generatorLimit*u.Period.Seconds() {
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
		generators = u.Publisher.Total() + u.Subscribers.Total()
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
