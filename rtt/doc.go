// Package rtt measures the round-trip times of passing traffic. eBPF programs see each packet at a network device,
// match replies with requests, and report RTTs; no packet is copied or changed. docs/rtt.md says what each number
// means.
//
// A [Monitor] measures interfaces as [MonitorConfig] says, and [Replay] measures a capture with the same programs. Both
// hand samples, flow events and intervals to a report.Sink. The parts, each a package of its own:
//
//	bpf      the programs
//	command  the flags of sluice-rtt, and what they open
//	groups   names of networks, from a file
//	kernel   loads them, and reads events and tables as values of package report
//	attach   puts them on hooks of devices
//	report   samples, flow events, intervals; the interface Sink
//	output, metrics, top   write them to files, expose them to Prometheus, lay them out as a table
//	history  keeps aggregates on disk
//	alert      tells when RTTs have risen
//	otlp, ipfix   send aggregates as OpenTelemetry metrics, and as IPFIX records
//	networks   answers how far networks are
//	pcap     reads captures
//
// A packet takes this path: a program at a hook parses it, and stores the time if a reply is expected ("stamps" it).
// When the reply passes, a program takes the difference, and puts an event into a ring buffer (or into the histogram of
// a prefix); at high rates each CPU collects a batch of them first. Monitor.Run takes events from the ring, where a
// kernel.Decoder turns each into a report.Sample for the Sink.
//
// Run has three goroutines. The first works at intervals: it takes events, ends intervals of aggregation, and tells the
// second one to clean up tables when something can have timed out. It alone calls the Sink, so there is no lock. The
// third one watches for interfaces that disappear.
package rtt
