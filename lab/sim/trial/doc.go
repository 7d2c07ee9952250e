// Package trial is a service on a simulated network: whole relays with real QUIC connections, media senders and
// sessions, which live through mishaps in virtual time. A minute of media takes about a second.
//
// A [Schedule] is a service and its mishaps, as data: [NewSchedule] makes the schedule of a seed, and [Shrink] makes
// one that fails smaller. [Live] lives through it and asks an oracle whether each viewer has the published media: each
// object once, in order, with the published bytes. The oracle has no excuses. A [Record] keeps what was sent.
//
// Virtual time stands still while a goroutine waits for a mutex. So nobody holds a mutex, or runs a sync.Once, while
// time passes. The network's lock is taken after service.mu and before service.linksMu.
//
// Most relays have a kernel: package programs does what the BPF programs do.
//
// The order of goroutines follows from the schedule only in the build of make simulate, with one schedule a process.
// docs/simulation.md lists the simulated parts, and shows how to read a failure.
package trial
