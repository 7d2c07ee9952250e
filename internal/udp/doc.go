// Package udp sends datagrams in batches: few system calls for the packets of many connections.
//
// A sender writes each packet into memory of a [Batch] (Next) and adds it with its [Route] (Add). Packets for the
// same route that follow each other and have one size become a train, which the kernel or the device cuts (UDP GSO).
// Flush hands all of them to the [Socket]: on Linux with sendmmsg, elsewhere with one system call for each packet.
//
//	packet ──► Batch.Add ──► Message (a packet or a train) ──► Flush ──► Socket.Write ──► sendmmsg
//
// A datagram that the system refuses is lost, as datagrams are, and counted with its reason in [Counters]. If a device
// cannot cut trains, the packets go one by one, and the route sends no more trains.
//
// A Batch with its Socket belongs to one goroutine, and so do the routes that are added to it. Counters may be read by
// others.
package udp
