//go:build !linux

package load

import "net"

func growReadBuffer(c *net.UDPConn, bytes int) { _ = c.SetReadBuffer(bytes) }
