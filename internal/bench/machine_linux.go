package bench

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/internal/lab"
)

// readMachine describes this machine.
func readMachine() (Machine, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Machine{}, err
	}
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return Machine{}, err
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Machine{}, err
	}
	m := Machine{Kernel: unix.ByteSliceToString(name.Release[:]), Cores: runtime.NumCPU(), Load: parseLoad(optional("/proc/loadavg"))}
	if m.Memory, err = kilobytes(colonFields(string(meminfo))["MemTotal"]); err != nil {
		return Machine{}, err
	}
	var virtual bool
	m.CPU, virtual = parseCPU(string(cpuinfo))
	m.Virtualised = hypervisor(virtual, optional("/sys/class/dmi/id/sys_vendor"), optional("/sys/class/dmi/id/product_name"))
	m.Governor = optional("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	return m, nil
}

// optional returns the text of a file that not every machine has.
func optional(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// offloads are the features of a device that decide what packets are, by their names in ethtool(8).
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

// readOffloads returns the features of a host's device.
func readOffloads(h *lab.Host, device string) (map[string]string, error) {
	features := make(map[string]string)
	err := h.Do(func() error {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		var errs []error
		for _, o := range offloads {
			on, err := readOffload(socket, device, o.get)
			errs = append(errs, err)
			features[o.name] = map[bool]string{true: "on", false: "off"}[on]
		}
		return errors.Join(errs...)
	})
	return features, err
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
