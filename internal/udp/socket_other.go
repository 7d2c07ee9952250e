//go:build !linux

package udp

import "net"

// NewSocket returns a socket that sends on pc. gso has no effect on this system.
func NewSocket(pc net.PacketConn, gso bool, counters *Counters) (Socket, error) {
	return newPortable(pc, counters)
}
