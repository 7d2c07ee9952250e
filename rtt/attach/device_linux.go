package attach

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/rtt/bpf"

	"github.com/vishvananda/netlink"
)

// Device is a network device that is watched.
type Device struct {
	Name     string
	Index    int
	ip       bool // packets start with their IP header
	loopback bool // each packet leaves and arrives: egress sees all
}

// Link types, as netlink names them.
var (
	etherTypes = map[string]bool{"ether": true, "loopback": true}
	ipTypes    = map[string]bool{
		"none": true, "ppp": true, "ipip": true, "tunnel6": true, "sit": true, "gre": true, "gre6": true, "rawip": true,
	}
)

// FindDevices looks devices up in the network namespace of the calling thread. A device that is named twice is returned
// once.
func FindDevices(names []string) ([]Device, error) {
	if len(names) == 0 {
		return nil, errors.New("no interface to watch" + present())
	}
	var devices []Device
	for _, name := range names {
		d, err := findDevice(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(devices, d) {
			devices = append(devices, d)
		}
	}
	return devices, nil
}

func findDevice(name string) (Device, error) {
	l, err := netlink.LinkByName(name)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return Device{}, fmt.Errorf("no interface %q%s", name, present())
	}
	if err != nil {
		return Device{}, fmt.Errorf("interface %q: %w", name, err)
	}
	kind := l.Attrs().EncapType
	if !etherTypes[kind] && !ipTypes[kind] {
		return Device{}, fmt.Errorf("interface %q is of type %s: only Ethernet and IP devices can be watched", name,
			kind)
	}
	return Device{Name: name, Index: l.Attrs().Index, ip: ipTypes[kind], loopback: kind == "loopback"}, nil
}

// present lists the interfaces of this host, for an error.
func present() string {
	links, err := netlink.LinkList()
	if err != nil || len(links) == 0 {
		return ""
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return "; there are: " + strings.Join(names, ", ")
}

// programs returns the names of a device's programs.
func (d Device) programs(hook Hook) []string {
	ingress, egress := bpf.MonitorProgIngress, bpf.MonitorProgEgress
	if hook == HookXDP {
		ingress = bpf.MonitorProgXdpIngress
	}
	if d.ip {
		ingress, egress = ingress+"_ip", egress+"_ip"
	}
	if d.loopback {
		return []string{egress}
	}
	return []string{ingress, egress}
}
