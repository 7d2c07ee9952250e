package procfs

import (
	"cmp"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"sluice/lab/bench/result"
)

// dmi is where the kernel shows the firmware's description of the machine.
const dmi = "/sys/class/dmi/id/"

// ReadMachine describes this machine.
func ReadMachine() (m result.Machine, err error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, err
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m, err
	}
	cpus, err1 := fs.CPUInfo()
	memory, err2 := fs.Meminfo()
	load, err3 := fs.LoadAvg()
	if err := errors.Join(err1, err2, err3); err != nil {
		return m, err
	}
	return result.Machine{
		Kernel: unix.ByteSliceToString(name.Release[:]), Cores: runtime.NumCPU(),
		CPU:    cmp.Or(cpus[0].ModelName, runtime.GOARCH), // arm64 has only numbers
		Memory: *memory.MemTotalBytes, Load: load.Load1, Virtualised: hypervisor(cpus[0].Flags),
		Governor: optional("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
	}, nil
}

// hypervisor names the hypervisor by the firmware, if there is one.
func hypervisor(flags []string) string {
	if !slices.Contains(flags, "hypervisor") {
		return ""
	}
	return cmp.Or(strings.TrimSpace(optional(dmi+"sys_vendor")+" "+optional(dmi+"product_name")), "unknown")
}

// optional returns the text of a file, which not every machine has.
func optional(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
