package handover

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peerOf returns the id of the process at the other end. It has to run as the same user, as the kernel demands of
// sockets that share a port, too.
func peerOf(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(cerr, err); err != nil {
		return 0, err
	}
	if int(cred.Uid) != os.Geteuid() {
		return int(cred.Pid), fmt.Errorf("the process runs as user %d: must be user %d", cred.Uid, os.Geteuid())
	}
	return int(cred.Pid), nil
}
