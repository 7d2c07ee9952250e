package trial

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// offloads are the features of a device that fill in checksums, or join or cut packets, by their names in ethtool(8).
var offloads = []struct {
	name string
	get  uint32 // ETHTOOL_G…
}{
	{"tx-checksum", unix.ETHTOOL_GTXCSUM},
	{"rx-checksum", unix.ETHTOOL_GRXCSUM},
	{"tcp-segmentation", unix.ETHTOOL_GTSO},
	{"generic-segmentation", unix.ETHTOOL_GGSO},
	{"generic-receive", unix.ETHTOOL_GGRO},
}

// ReadOffloads returns the features of a device.
func ReadOffloads(device string) (map[string]string, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(socket)
	features := make(map[string]string)
	var errs []error
	for _, o := range offloads {
		on, err := readOffload(socket, device, o.get)
		errs = append(errs, err)
		features[o.name] = map[bool]string{true: "on", false: "off"}[on]
	}
	return features, errors.Join(errs...)
}

func readOffload(socket int, device string, get uint32) (bool, error) {
	value := struct{ command, data uint32 }{command: get}
	var request struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	request.data = unsafe.Pointer(&value)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return false, errno
	}
	return value.data != 0, nil
}
