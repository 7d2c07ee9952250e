//go:build !linux

package transport

import (
	"net"
	"time"
)

// coalesce needs epoll(7): elsewhere packets are read as they come.
func coalesce(c *net.UDPConn, _ func() time.Duration) (UDPConn, error) { return c, nil }
