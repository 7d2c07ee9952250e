package bench

import (
	"fmt"
	"time"
)

// usage is what a period of a trial took.
type usage struct {
	period                     time.Duration
	cores                      int
	busy, steal, softirq       time.Duration
	relay, publisher, subs     processTimes
	ebpf, lab                  time.Duration // run time of the relay's and of all other programs
	others                     time.Duration // by processes that have no part in the trial, and the one that measures
	idle                       float64       // cores that were busy before media flowed, without others
	activity                   activity      // of the relay
	packets                    int           // delivered
	subscribers                int
	kernelPackets, userPackets float64 // with media, that Sluice sent either way
	lateP99                    time.Duration
	frameInterval              time.Duration
}

// percent is a time as the share of one core.
func (u *usage) percent(d time.Duration) float64 { return 100 * d.Seconds() / u.period.Seconds() }

// add adds what tells how sure the rest is.
func (u *usage) add(o *outcome) {
	m := o.Metrics
	m["generator"] = u.percent(u.publisher.total() + u.subs.total())
	m["busy"] = u.percent(u.busy) / float64(u.cores)
	m["steal"] = u.percent(u.steal) / float64(u.cores)
	m["others"] = u.percent(u.others)
	m["packets"] = float64(u.packets)
	m["late"] = u.lateP99.Seconds() * 1e3
	if all := u.kernelPackets + u.userPackets; all > 0 {
		m["kernel"] = 100 * u.kernelPackets / all
	}
}

// addCPU adds the CPU use. Softirqs run in the time of the process that they interrupt, so the relay's eBPF programs, which run as packets of
// the publisher arrive, are in the time of the publisher. The breakdown takes them from there.
func (u *usage) addCPU(o *outcome) {
	relay := u.relay.total() + u.ebpf
	publisher := max(0, u.publisher.total()-u.ebpf)
	m := o.Metrics
	m["cpu.relay"] = u.percent(relay)
	m["cpu.relay.user"] = u.percent(u.relay.user)
	m["cpu.relay.system"] = u.percent(u.relay.system)
	m["cpu.ebpf"] = u.percent(u.ebpf)
	m["cpu.lab"] = u.percent(u.lab)
	m["cpu.softirq"] = u.percent(u.softirq)
	m["cpu.publisher"] = u.percent(u.publisher.total())
	m["cpu.subscribers"] = u.percent(u.subs.total())
	m["cpu.relay.wakeups"] = float64(max(0, u.activity.wakeups)) / u.period.Seconds()
	m["datagrams.received"] = float64(u.activity.received) / u.period.Seconds()
	m["datagrams.sent"] = float64(u.activity.sent) / u.period.Seconds()
	m["cpu.subscriber"] = u.percent(relay) / float64(u.subscribers)
	parts := map[string]float64{
		"relay, user":   u.percent(u.relay.user),
		"relay, system": u.percent(u.relay.system),
		"relay, eBPF":   u.percent(u.ebpf),
		"publisher":     u.percent(publisher),
		"subscribers":   u.percent(u.subs.total()),
	}
	o.Breakdowns["cpu"] = parts
	packets := float64(max(u.packets, 1))
	m["cpu.packet.relay"] = relay.Seconds() * 1e6 / packets
	over := u.busy - u.others - time.Duration(u.idle*float64(u.period))
	// All that a process ever used comes up at once with whoever waits for it in place of its parent.
	if over < relay || over > u.busy+u.busy/10 {
		o.cpuNotes = append(o.cpuNotes, "unrelated processes hide what the whole system used")
		return
	}
	m["cpu.system"] = u.percent(over)
	m["cpu.packet"] = over.Seconds() * 1e6 / packets
	parts["softirq and all other"] = u.percent(max(0, over-relay-publisher-u.subs.total()))
}

const (
	// generatorLimit is the part of a core above which a publisher may be what is measured.
	generatorLimit = .85
	// noticeable is the part of a core, in percent, that others may take without a word.
	noticeable = 20
	// saturated is the part of the machine above which nothing is left.
	saturated = .97
)

// noise says how much of the machine others took during the runs of a system; "" if that is little.
func (s Summary) noise() string {
	if others := s.Metrics["others"].Max; others >= noticeable {
		return fmt.Sprintf("unrelated processes used up to %.0f%% of a core", others)
	}
	return ""
}

// bottleneck says why the load generator, and not the relay, decided the result; "" if it did not.
func (u *usage) bottleneck() string {
	if p := u.publisher.total() - u.ebpf; p.Seconds() > generatorLimit*u.period.Seconds() {
		return fmt.Sprintf("the publisher was the bottleneck: it used %.0f%% of a core", u.percent(p))
	}
	if u.lateP99 > u.frameInterval/2 {
		return fmt.Sprintf("the publisher was the bottleneck: with 1%% of its frames it was %v or more late", u.lateP99.Round(time.Millisecond))
	}
	return ""
}

// exhausted says that the machine was, by others than the relay; "" if that is not so.
func (u *usage) exhausted() string {
	relay := u.relay.total() + u.ebpf
	generators := u.publisher.total() + u.subs.total() - u.ebpf
	switch {
	case u.busy.Seconds() < saturated*float64(u.cores)*u.period.Seconds():
		return ""
	case u.others > max(relay, generators):
		return fmt.Sprintf("the machine was busy with other things, which used %.0f%% of a core", u.percent(u.others))
	case generators > relay:
		return fmt.Sprintf("the load generators were the bottleneck: the machine was busy, and they used %.0f%% of a core, the relay %.0f%%",
			u.percent(generators), u.percent(relay))
	}
	return ""
}
