// Package broker lets a relay's machine start load generators on other machines.
//
// The machines of a bench need not reach each other by SSH: only the user's machine reaches them all. So it is the
// broker. It listens at a Unix socket, which SSH forwards from the relay's machine; a connection to the socket is the
// input and the output of one load generator, after a [Request] as its first line. [Serve] is the side of the user's
// machine, [Open] the relay's. A request can start nothing else.
package broker
