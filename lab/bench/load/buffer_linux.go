package load

import (
	"net"

	"golang.org/x/sys/unix"
)

// growReadBuffer gives a socket room for seconds of video, so that a load generator that has to wait for a processor
// loses nothing. Only root may exceed the limit of the system.
func growReadBuffer(c *net.UDPConn, bytes int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes) // else it stays as it is
	})
}
