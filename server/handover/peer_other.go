//go:build !linux

package handover

import (
	"errors"
	"net"
)

// peerOf fails.
func peerOf(*net.UnixConn) (pid int, err error) { return 0, errors.New("needs Linux") }
