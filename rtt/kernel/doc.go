// Package kernel loads the programs of package bpf, and reads their results as values of package report.
//
// The programs measure in three ways, and each has its reader:
//
//   - Events, one for each RTT and each flow that opens or closes, come through a ring buffer, which a [Ring] reads.
//     At high rates each CPU collects a batch before it hands it over; [Programs.Flush] makes all CPUs hand over what
//     they have. A [Decoder] passes events to a [report.Sink].
//   - The flow table holds counters and the latest RTTs of each flow: [Decoder.Flows].
//   - With aggregation, tables hold traffic and a histogram of RTTs for each network prefix. An [Aggregator] reads them
//     period by period. Each entry has room for two periods, so that the programs fill one while the other is read.
//
// Nothing here has a lock: the caller uses an Aggregator from one goroutine at a time, and guards the Sink of its
// Decoder.
package kernel
