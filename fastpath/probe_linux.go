package fastpath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/fastpath/bpf"
)

// The first version of Linux with TCX links.
const minMajor, minMinor = 6, 6

// capabilities are needed to load and attach the programs (capabilities(7)).
var capabilities = []struct {
	bit  uint
	name string
}{{39, "CAP_BPF"}, {12, "CAP_NET_ADMIN"}, {38, "CAP_PERFMON"}}

const capSysAdmin = 21 // includes CAP_BPF and CAP_PERFMON

// explain replaces an error of the kernel by its cause, if that is the version or a missing capability.
func explain(err error) error {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		release := unix.ByteSliceToString(name.Release[:])
		if isOlder(release, minMajor, minMinor) {
			return fmt.Errorf("this kernel is Linux %s, %d.%d is required", release, minMajor, minMinor)
		}
	}
	if missing := missingCapabilities(); len(missing) > 0 {
		return fmt.Errorf("missing %s", strings.Join(missing, ", "))
	}
	return err
}

func isOlder(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n < 2 {
		return false
	}
	return a < major || a == major && b < minor
}

// missingCapabilities returns the names of the capabilities that this process lacks.
func missingCapabilities() (missing []string) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(status), "\nCapEff:")
	word, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	effective, err := strconv.ParseUint(word, 16, 64)
	if err != nil {
		return nil
	}
	for _, c := range capabilities {
		admin := c.name != "CAP_NET_ADMIN" && effective>>capSysAdmin&1 != 0
		if effective>>c.bit&1 == 0 && !admin {
			missing = append(missing, c.name)
		}
	}
	return missing
}

var errNoDevice = errors.New("no Ethernet device leads to the listening address")

// Devices finds the devices through which packets reach a relay that listens on an address: the device with that
// address; if the relay listens on every address, all devices that have one.
func Devices(listen netip.Addr) ([]int, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var found []int
	for _, d := range all {
		if d.Flags&net.FlagUp == 0 || d.Flags&net.FlagLoopback != 0 || len(d.HardwareAddr) != 6 {
			continue
		}
		if hasAddress(&d, listen) {
			found = append(found, d.Index)
		}
	}
	if len(found) == 0 {
		return nil, errNoDevice
	}
	return found, nil
}

func hasAddress(d *net.Interface, a netip.Addr) bool {
	addrs, _ := d.Addrs()
	for _, x := range addrs {
		p, err := netip.ParsePrefix(x.String())
		if err != nil || a.IsUnspecified() && p.Addr().IsLinkLocalUnicast() {
			continue
		}
		if a.IsUnspecified() || p.Addr().Unmap() == a.Unmap() {
			return true
		}
	}
	return false
}

// others counts the programs of other relays on a device. Programs end with their process, so these belong to running
// ones.
func others(ifindex int) (n int) {
	for at, name := range map[ebpf.AttachType]string{
		ebpf.AttachTCXIngress: bpf.IngressProgServerIngress, ebpf.AttachTCXEgress: bpf.EgressProgClientEgress,
	} {
		r, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: at})
		if err != nil {
			continue
		}
		for _, p := range r.Programs {
			if programName(p.ID) == name {
				n++
			}
		}
	}
	return n
}

func programName(id ebpf.ProgramID) string {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return ""
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return ""
	}
	return info.Name
}
