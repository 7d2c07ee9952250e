package procfs

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/lab/bench/result"
)

// dmi is where the kernel shows the firmware's description of the machine.
const dmi = "/sys/class/dmi/id/"

// ReadMachine describes this machine.
func ReadMachine() (result.Machine, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return result.Machine{}, err
	}
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return result.Machine{}, err
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return result.Machine{}, err
	}
	m := result.Machine{
		Kernel: unix.ByteSliceToString(name.Release[:]),
		Cores:  runtime.NumCPU(),
		Load:   parseLoad(optional("/proc/loadavg")),
	}
	if m.Memory, err = kilobytes(colonFields(string(meminfo))["MemTotal"]); err != nil {
		return result.Machine{}, err
	}
	var virtual bool
	m.CPU, virtual = parseCPU(string(cpuinfo))
	m.Virtualised = hypervisor(virtual, optional(dmi+"sys_vendor"), optional(dmi+"product_name"))
	m.Governor = optional("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	return m, nil
}

// optional returns the text of a file, which not every machine has.
func optional(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
