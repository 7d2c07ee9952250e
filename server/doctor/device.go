package doctor

import (
	"context"
	"fmt"
	"strings"
)

func eachDevice(examine func(m *Machine, r *report, device string) (string, error)) check {
	return func(_ context.Context, m *Machine, r *report) (string, error) {
		if len(m.Devices) == 0 {
			return "no Ethernet device has the listening address", nil
		}
		for _, d := range m.Devices {
			r.run(func() (string, error) { return examine(m, r, d) })
		}
		return "", nil
	}
}

// checkDevice reads the driver, which virtual devices may not have, and the MTU.
func checkDevice(m *Machine, r *report, device string) (string, error) {
	const least = 1280 // QUIC's datagrams of 1,200 bytes (RFC 9000 §14), behind the headers of IPv6 and UDP
	dir := "/sys/class/net/" + device
	driver, err := m.field(dir+"/device/uevent", "DRIVER=")
	if err != nil {
		driver = "virtual"
	}
	mtu, err := m.number(dir + "/mtu")
	text := fmt.Sprintf("%s (%s): MTU %d", device, driver, mtu)
	if mtu < least && err == nil {
		r.add(Wrong, "no client connects", "ip link set "+device+" mtu 1500", "%s, QUIC needs %d", text, least)
	}
	return text, err
}

var onOff = map[bool]string{true: "on", false: "off"}

// features are offloads, and how each should be. A device that merges packets of UDP keeps them from the kernel's
// programs (docs/fastpath.md).
var features = []struct {
	name   string
	on     bool
	effect string
}{
	{"rx-udp-gro-forwarding", false, "the kernel does not forward merged packets: user space sends them, later"},
	{"tx-udp-segmentation", true, "the CPU cuts trains of packets"},
	{"rx-checksum", true, "the CPU computes checksums"},
	{"tx-checksum-ip-generic", true, "the CPU computes checksums"},
	{"tx-checksum-ipv4", true, "the CPU computes checksums"},
	{"tx-checksum-ipv6", true, "the CPU computes checksums"},
}

func checkOffloads(m *Machine, r *report, device string) (string, error) {
	has, err := m.features(device)
	for _, f := range features {
		if on, known := has[f.name]; known && on != f.on {
			r.add(Better, f.effect, fmt.Sprintf("ethtool -K %s %s %s", device, f.name, onOff[f.on]),
				"%s: %s is %s", device, f.name, onOff[on])
		}
	}
	return device + ": as they should be", err
}

// checkQueues looks for a device whose packets one processor of several receives.
func checkQueues(m *Machine, r *report, device string) (string, error) {
	rps := func(queue int) string {
		return fmt.Sprintf("/sys/class/net/%s/queues/rx-%d/rps_cpus", device, queue)
	}
	cpus, err := m.word(rps(0))
	if _, errSecond := m.read(rps(1)); errSecond == nil {
		return device + ": several receive queues", nil
	}
	if err == nil && m.processors > 1 && strings.Trim(cpus, "0,") == "" {
		r.add(Better, "the others wait while it forwards",
			fmt.Sprintf("echo %x >%s", uint64(1)<<min(m.processors, 32)-1, rps(0)),
			"%s: one of %d processors receives all packets", device, m.processors)
	}
	return device + ": one receive queue, shared by processors", err
}
