// Package wire builds the packets that tests and benchmarks show to the latency monitor.
package wire
