// Package report defines the values that the latency monitor reports, and the interface of their receivers.
//
// A [Sample] is one RTT of a flow, a [FlowEvent] the opening or closing of one direction of a flow, an [Interval] the
// traffic and RTTs of network prefixes over some time. They go to a [Sink]: a file, metrics, a screen, or with [Tee] to
// several. A [FlowState] and [Counters] are read on request instead.
package report
