package attach

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// promiscuous counts one user of a device's promiscuous mode, as long as a socket is open: also if the process is
// killed, the device goes back. The socket has no protocol and receives nothing.
func promiscuous(d Device) (io.Closer, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, socketError(err)
	}
	mode := unix.PacketMreq{Ifindex: int32(d.Index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &mode); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "promiscuous"), nil
}

// socketError adds advice if there is no packet socket.
func socketError(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("run as root, or with CAP_NET_RAW: %w", err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("allow AF_PACKET, as with RestrictAddressFamilies= in a unit of systemd: %w", err)
	}
	return err
}
