package rtt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// device is an interface that is watched.
type device struct {
	name     string
	index    int
	ip       bool // packets start with their IP header
	loopback bool // packets leave and arrive: once is enough
}

// Link types of the kernel, by the names that netlink gives them.
var (
	etherTypes = map[string]bool{"ether": true, "loopback": true}
	ipTypes    = map[string]bool{"none": true, "ppp": true, "ipip": true, "tunnel6": true, "sit": true, "gre": true, "gre6": true, "rawip": true}
)

// findDevices looks the interfaces up. One that is named twice is watched once.
func findDevices(names []string) ([]device, error) {
	if len(names) == 0 {
		return nil, errors.New("no interface to watch" + present())
	}
	var devices []device
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

func findDevice(name string) (device, error) {
	l, err := netlink.LinkByName(name)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return device{}, fmt.Errorf("no interface %q%s", name, present())
	}
	if err != nil {
		return device{}, fmt.Errorf("interface %q: %w", name, err)
	}
	kind := l.Attrs().EncapType
	if !etherTypes[kind] && !ipTypes[kind] {
		return device{}, fmt.Errorf("interface %q is of type %s: only Ethernet and IP devices can be watched", name, kind)
	}
	return device{name: name, index: l.Attrs().Index, ip: ipTypes[kind], loopback: kind == "loopback"}, nil
}

// present lists the interfaces there are, for an error.
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
