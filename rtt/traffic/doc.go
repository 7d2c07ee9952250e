// Package traffic makes the traffic of an internet provider, as a monitor between customers and the internet sees it.
//
// [Packets] yields the packets in the order of their times. Conversations begin at random, more often in the evening
// than at night: TCP and QUIC downloads whose sizes have a heavy tail, DNS queries, and pings. A conversation makes its
// packets a round at a time: the server's packets in one round trip, and the customer's answers. All of it follows from
// the seed. Addresses are of private networks and of documentation.
package traffic
