// Package rtt measures round-trip times of passing traffic with eBPF programs and reports them.
package rtt
