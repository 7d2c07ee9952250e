//go:build !linux

package media

import "net"

func newSocket(pc net.PacketConn, _ bool, stats *writeStats) (socket, error) {
	return newUDPSocket(pc, stats)
}
