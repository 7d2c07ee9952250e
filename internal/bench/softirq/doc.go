// Package softirq measures for how long softirqs ran in the time of a process, with eBPF programs at raw tracepoints.
// The kernel charges them to the process that they interrupt (unless it was built with CONFIG_IRQ_TIME_ACCOUNTING), but
// most are not the process's work: in a lab on one machine, a process that sends a packet carries it through the links
// to another host, and that host's stack receives it.
package softirq
