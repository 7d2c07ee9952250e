// Package softirq measures for how long softirqs handle the packets of each part of a trial, and for how long they
// interrupt its processes, with eBPF programs at tracepoints.
//
// The kernel charges a softirq to the process that it interrupts (unless it was built with
// CONFIG_IRQ_TIME_ACCOUNTING), but most are not that process's work: in a lab on one machine, a process that sends a
// packet carries it through the links to another host, and that host's stack receives it. So a part's CPU time is the
// time of its processes, without the softirqs that interrupted them, and with the softirqs that handled packets which
// its devices received. A packet belongs to the network namespace of its device from when the stack gets it until the
// stack gets the next one.
package softirq
