// Package procfs reads from /proc the resources that the machine and its processes used: CPU time, memory, datagrams
// and wake-ups.
//
// Counters are read twice, and a measurement is their difference (Minus). Two properties of the kernel's accounts
// decide how they are used:
//
//   - The kernel charges softirqs to the process that they interrupt, so a process's time contains work for others.
//   - The time of a process that has ended is in the account of the process that waited for it ([UsedBetween]).
package procfs
